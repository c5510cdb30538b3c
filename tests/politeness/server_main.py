"""All hosts in one process: python -m tests.politeness.server_main LOG PART

It prints the port that all of them share, and writes a line for each request when it is answered:

    ADDRESS ARRIVED ANSWERED STATUS BEGUN FETCHER

Times are seconds of the monotonic clock, which all processes of a machine share. BEGUN and FETCHER come from the
request: when its task was begun, and by which fetcher.
"""

from __future__ import annotations

import asyncio
import sys
import time
from functools import partial
from pathlib import Path
from typing import Final, TextIO

from tests.politeness.hosts import Host, Refusal, hosts_of

BACKLOG: Final = 256


class Served:
    """Host, and its number of requests."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._requests = 0

    def refusal(self) -> Refusal | None:
        """Return the next refusal: every ``refused_every``-th request is refused."""
        kind = self.host.kind
        self._requests += 1
        return kind.refuses if self._requests % kind.refused_every == 0 else None


class Visitor(asyncio.Protocol):
    """Connection, which is closed with its answer."""

    def __init__(self, served: Served, log: TextIO) -> None:
        self._served = served
        self._log = log
        self._heard = b""
        self._arrived_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._arrived_at = self._arrived_at or time.monotonic()
        self._heard += data
        if self._heard.endswith(b"\r\n\r\n"):
            asyncio.get_running_loop().call_later(self._served.host.kind.answer_seconds, self._answer)

    def _answer(self) -> None:
        answered_at = time.monotonic()
        refusal = self._served.refusal()
        status = 200 if refusal is None else refusal.status
        said = dict(line.lower().split(": ", 1) for line in self._heard.decode().split("\r\n")[1:] if line)
        times = (f"{self._arrived_at:.6f}", f"{answered_at:.6f}")
        print(self._served.host.address, *times, status, said["begun"], said["fetcher"], file=self._log)
        wait = f"Retry-After: {refusal.retry_after}\r\n" if refusal is not None and refusal.retry_after else ""
        assert isinstance(self._transport, asyncio.WriteTransport)
        self._transport.write(f"HTTP/1.1 {status} -\r\n{wait}Content-Length: 0\r\nConnection: close\r\n\r\n".encode())
        self._transport.close()


async def serve(log: TextIO, part: float) -> None:
    """Serve until the process is killed."""
    loop = asyncio.get_running_loop()
    port = 0
    for host in hosts_of(part):
        if not host.kind.is_dead:
            server = await loop.create_server(partial(Visitor, Served(host), log), host.address, port, backlog=BACKLOG)
            port = server.sockets[0].getsockname()[1]
    print(port, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    with Path(sys.argv[1]).open("w", buffering=1) as log:
        asyncio.run(serve(log, float(sys.argv[2])))
