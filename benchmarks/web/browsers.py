"""Browsers that open a page and follow its changes, without drawing it; in a process of their own.

    python -m benchmarks.web.browsers --url http://127.0.0.1:7401/ --count 200

It prints ``ready`` when all of them have received the first change, and at SIGTERM one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import signal
import time
from html import unescape
from statistics import median
from typing import Final
from urllib.parse import urlsplit

LIVE: Final = re.compile(rb'data-live="([^"]*)"')
AT_ONCE: Final = 20
"""Browsers that ask for the page at the same time."""


class Browsers:
    """Browsers and what they received.

    Attributes:
        received: bytes of changes, after the first one of each.
        events: changes of all of them, after the first one of each.
        pages: seconds that each waited for the page.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port, self._path = parts.hostname or "", parts.port or 80, parts.path or "/"
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._ready = 0
        self.received = self.events = 0
        self.page_bytes = 0
        self.pages: list[float] = []
        self.all_ready = asyncio.Event()

    async def look(self, count: int) -> None:
        """Run one browser, until it is cancelled."""
        async with self._gate:
            began_at = time.perf_counter()
            reader, _ = await self._ask(self._path, "close")
            page = await reader.read()
            self.pages.append(time.perf_counter() - began_at)
            self.page_bytes = len(page)
            found = LIVE.search(page)
            if found is None:
                raise SystemExit(f"the page has no live elements: {page[:500]!r}")
            reader, _ = await self._ask(unescape(found[1].decode()), "keep-alive")
            while not (await reader.readline()).startswith(b"data:"):
                pass
        self._ready += 1
        if self._ready == count:
            self.all_ready.set()
        while line := await reader.readline():
            self.received += len(line)
            self.events += line.startswith(b"data:")
        raise SystemExit("a stream has ended")

    async def _ask(self, path: str, connection: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(self._host, self._port, limit=1 << 24)
        head = f"GET {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nConnection: {connection}\r\n\r\n"
        writer.write(head.encode())
        return reader, writer


async def watch(url: str, count: int) -> None:
    """Watch until SIGTERM; print what was received."""
    browsers = Browsers(url)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with asyncio.TaskGroup() as group:
        looking = [group.create_task(browsers.look(count)) for _ in range(count)]
        await browsers.all_ready.wait()
        browsers.received = browsers.events = 0
        began_at = time.perf_counter()
        print("ready", flush=True)
        await ended.wait()
        seconds = time.perf_counter() - began_at
        for task in looking:
            task.cancel()
    figures = {
        "minute_bytes": browsers.received / count * 60 / seconds,
        "minute_events": browsers.events / count * 60 / seconds,
        "page_bytes": browsers.page_bytes,
        "page_seconds": median(browsers.pages),
    }
    print(json.dumps(figures), flush=True)


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__)
    made.add_argument("--url", required=True)
    made.add_argument("--count", type=int, default=200)
    options = made.parse_args()
    asyncio.run(watch(options.url, options.count))


if __name__ == "__main__":
    main()
