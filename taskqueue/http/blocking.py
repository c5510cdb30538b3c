"""Http: fetching for blocking code, on urllib3; all threads of a process may share it.

urllib3's timeouts are for each read of the socket: a host that sends a byte of a header a second keeps a thread for
hours. The connections here are clocked: each read may take the rest of the time, so head and body end when the total is
over.
"""

from __future__ import annotations

import asyncio
import io
import socket
import time
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from http.client import HTTPException, HTTPResponse
from types import TracebackType
from typing import Any, Final

from urllib3 import BaseHTTPResponse, PoolManager, Timeout
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError, ProtocolError

from taskqueue.client.tasks.task import Task
from taskqueue.http.answer import (
    CONNECT_SECONDS,
    MAX_FILE_BYTES,
    MAX_PAGE_BYTES,
    PIECE_BYTES,
    REDIRECTS_MOST,
    REPEATABLE,
    TOTAL_SECONDS,
    Asked,
    Page,
    Requests,
    Visit,
    checked_limits,
    redirected,
)
from taskqueue.http.body import Body, Broken, TooLarge, UnknownCoding

NO_ANSWER: Final = (HTTPError, HTTPException, OSError, UnicodeError, Broken, TooLarge, UnknownCoding)
"""Errors if no answer comes, or none that can be read; UnicodeError: from impossible host names."""


class Http:
    """Fetcher of pages for plain handlers; create one per process, whose threads share its connections.

    A page is bounded in bytes and in time. Redirects are not followed; cookies and proxies are not used.

    Args:
        agent: the User-Agent: name of the crawler, and an address for complaints, such as "examplebot/1.0
            (+https://example.com/bot)".
        headers: headers of each request.
        timeout: seconds for the whole answer. Looking up a host's address may take longer, and each of its addresses is
            tried for at most 10 s.
        max_bytes: bytes of a page after decompression; a larger one fails for good.
    """

    def __init__(
        self,
        agent: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float = TOTAL_SECONDS,
        max_bytes: int = MAX_PAGE_BYTES,
    ) -> None:
        self._requests = Requests(agent, headers)
        self._limits = checked_limits(timeout, max_bytes)
        self._pools = clocked_pools()

    def fetch(self, task: Task, *, headers: Mapping[str, str] | None = None, conditional: bool = False) -> Page:
        """Fetch a task's page, and record by ``task.fetched`` how it went.

        The request uses ``method``, ``headers`` and ``data`` of the task's ``fetch``, which includes its project's
        settings.

        Args:
            headers: headers of this request, which win over all others.
            conditional: ask only for changes since the last report; the answer may be an empty 304.

        Raises:
            Retry: the site is busy, broken, unreachable or too slow; after its Retry-After, else by the project's
                table.
            Drop: any other status from 400 on, a page that is too large, or a URL that is not http or https.
            RuntimeError: it is called in an event loop, which it would block.
        """
        _check_outside_of_loops()
        asked = self._requests.for_task(task, headers, conditional)
        visit = Visit(task, asked, self._limits)
        try:
            with closing(self._answer(asked)) as answer:
                body = visit.answered(answer.status, _headers_of(answer))
                return visit.page(b"" if body is None else _read(answer, body))
        except NO_ANSWER as error:
            raise visit.failure(error) from error

    def get(self, url: str) -> tuple[int, bytes]:
        """Fetch a robots.txt or a sitemap for ``Robots``; follows at most 5 redirects, reads at most 50 MiB.

        Raises:
            Exception: no answer comes, or none that can be read; an error of urllib3, an OSError or one of
                taskqueue.http.
        """
        for _ in range(REDIRECTS_MOST + 1):
            with closing(self._answer(self._requests.for_file(url))) as answer:
                headers = _headers_of(answer)
                target = redirected(answer.status, headers, url)
                if target is None:
                    return answer.status, _beginning(answer, Body(headers, MAX_FILE_BYTES))
                url, status = target, answer.status
        return status, b""

    def close(self) -> None:
        """Close the kept connections; the next fetch opens others."""
        self._pools.clear()

    def __enter__(self) -> Http:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _answer(self, asked: Asked) -> BaseHTTPResponse:
        """Return the head of the answer; its body is still to be read. If a kept connection is closed, try another."""
        ends_at = time.monotonic() + self._limits.seconds
        while True:
            try:
                return self._sent(asked, ends_at - time.monotonic())
            except Stale:
                if asked.method not in REPEATABLE or time.monotonic() >= ends_at:
                    raise

    def _sent(self, asked: Asked, seconds: float) -> BaseHTTPResponse:
        return self._pools.request(
            asked.method,
            asked.url,
            body=asked.data,
            headers=asked.headers,
            timeout=Timeout(connect=min(seconds, CONNECT_SECONDS), total=seconds),
            retries=False,
            redirect=False,
            preload_content=False,
            decode_content=False,
        )


def _read(answer: BaseHTTPResponse, body: Body) -> bytes:
    # Not stream(): its reader of chunks accepts lines without an end.
    while piece := answer.read(PIECE_BYTES, decode_content=False):
        body.take(piece)
    return body.end()


def _beginning(answer: BaseHTTPResponse, body: Body) -> bytes:
    """Return the body, or as much of it as may be read."""
    try:
        return _read(answer, body)
    except TooLarge:
        return body.beginning()


def _headers_of(answer: BaseHTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in answer.headers.items()}


def _check_outside_of_loops() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError("Http.fetch would block the event loop: use AsyncHttp, or asyncio.to_thread(http.fetch, task)")


HOSTS_MOST: Final = 100
"""Hosts whose idle connections are kept."""

IDLE_MOST: Final = 100
"""Connections of one host that are kept: as many as threads that may have used them."""

BUFFER_BYTES: Final = 64 << 10


class ClockedReader(io.RawIOBase):
    """Reader of a socket until a moment of ``time.monotonic``."""

    def __init__(self, raw: io.RawIOBase, connected: socket.socket, ends_at: float) -> None:
        self._raw = raw
        self._socket = connected
        self._ends_at = ends_at

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._ends_at - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        self._socket.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class ClockedResponse(HTTPResponse):
    """An answer that has to be complete by a moment of ``time.monotonic``."""

    def __init__(self, connected: socket.socket, *arguments: Any, ends_at: float, **named: Any) -> None:
        super().__init__(connected, *arguments, **named)
        raw = self.fp.detach()
        self.fp = io.BufferedReader(ClockedReader(raw, connected, ends_at), BUFFER_BYTES)


class Stale(ProtocolError):
    """A kept connection has been closed by its host meanwhile; the request may be sent over another one."""


class ClockedConnection(HTTPConnection):
    """A connection whose timeout for reading is that of the whole answer."""

    _was_kept = False

    def connect(self) -> None:
        """Connect, or connect anew."""
        self._was_kept = False
        super().connect()

    def getresponse(self) -> Any:
        """Return the answer; ``timeout`` is the rest of the request's total.

        Raises:
            Stale: the host has closed the connection before it read the request.
        """
        assert self.timeout is not None
        ends_at = time.monotonic() + self.timeout
        self.response_class = partial(ClockedResponse, ends_at=ends_at)  # type: ignore[assignment]
        was_kept, self._was_kept = self._was_kept, True
        try:
            return super().getresponse()
        except ConnectionError as error:  # RemoteDisconnected, too.
            if was_kept:
                raise Stale("the connection was closed meanwhile", error) from error
            raise


class ClockedTlsConnection(ClockedConnection, HTTPSConnection):
    """A clocked connection over TLS."""


class _Pool(HTTPConnectionPool):
    ConnectionCls = ClockedConnection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = ClockedTlsConnection


def clocked_pools() -> PoolManager:
    """Make connection pools for all threads of a process."""
    pools = PoolManager(HOSTS_MOST, maxsize=IDLE_MOST)
    pools.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}
    return pools
