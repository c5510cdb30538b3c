"""Fetcher as users write one: python -m tests.politeness.fetcher_main URL NAME CONCURRENCY PREFETCH RECORD

A plain function that fetches with urllib, in a ``Worker``, which fills its reports. Each request says when its task was
begun, and by which fetcher. Hosts that refuse connections log nothing, so it writes a line ADDRESS BEGUN for each
attempt.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from taskqueue import Middleware, Task, Worker

TIMEOUT_SECONDS: Final = 20.0


class Begun(Middleware):
    """Time at which this thread's run was begun: a moment before the worker's own clock starts."""

    def __init__(self) -> None:
        self._local = threading.local()

    @property
    def at(self) -> float:
        return float(self._local.at)

    def before(self, task: Task) -> None:
        self._local.at = time.monotonic()


def main(url: str, name: str, concurrency: int, prefetch: int | None, record: Path) -> None:
    """Serve until SIGTERM."""
    begun, opener = Begun(), build_opener(ProxyHandler({}))

    def fetch(task: Task) -> None:
        request = Request(task.url, headers={"Begun": f"{begun.at:.6f}", "Fetcher": name})
        try:
            with opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
                answer.read()
        except HTTPError:
            raise
        except URLError:
            with record.open("a") as lines:
                print(urlsplit(task.url).hostname, f"{begun.at:.6f}", file=lines)
            raise

    Worker(fetch, client=url, concurrency=concurrency, prefetch=prefetch, name=name, middleware=[begun]).run()


if __name__ == "__main__":
    url, name, concurrency, prefetch, record = sys.argv[1:]
    main(url, name, int(concurrency), int(prefetch) if prefetch else None, Path(record))
