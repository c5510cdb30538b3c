"""AsyncHttp: fetching for asyncio, on httpx; ``pip install 'taskqueue-scheduler[http]'``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http.cookiejar import DefaultCookiePolicy
from types import TracebackType
from typing import Final

try:
    import httpx
except ModuleNotFoundError as error:  # pragma: no cover - tested in a process of its own.
    told = "taskqueue.http.AsyncHttp needs httpx: pip install 'taskqueue-scheduler[http]'"
    raise ModuleNotFoundError(told, name=error.name) from None

from taskqueue.client.tasks.task import Task
from taskqueue.http.answer import (
    CONNECT_SECONDS,
    MAX_FILE_BYTES,
    MAX_PAGE_BYTES,
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

NO_ANSWER: Final = (httpx.HTTPError, httpx.InvalidURL, OSError, UnicodeError, Broken, TooLarge, UnknownCoding)
"""Errors if no answer comes, or none that can be read; a TimeoutError is an OSError."""

IDLE_MOST: Final = 100
"""Connections that are kept for later."""


class Steps:
    """Progress of a request, as httpx reports it.

    Attributes:
        connected: a connection was made for it, or an attempt at one.
        answered: the head of an answer has come.
    """

    def __init__(self) -> None:
        self.connected = False
        self.answered = False

    async def note(self, name: str, about: object) -> None:
        """Record a step, such as ``connection.connect_tcp.started``; httpx calls this before and after each."""
        self.connected |= name.startswith("connection.connect_tcp.")
        self.answered |= name.endswith(".receive_response_headers.complete")


class AsyncHttp:
    """Fetcher of pages for ``async`` handlers; create one per process.

    A page is bounded in bytes and in time. Redirects are not followed; cookies and proxies are not used.

    Args:
        agent: the User-Agent: name of the crawler, and an address for complaints, such as "examplebot/1.0
            (+https://example.com/bot)".
        headers: headers of each request.
        timeout: seconds for the whole answer; at most 10 s of them to connect.
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
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connections: httpx.AsyncClient | None = None

    async def fetch(self, task: Task, *, headers: Mapping[str, str] | None = None, conditional: bool = False) -> Page:
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
        """
        asked = self._requests.for_task(task, headers, conditional)
        visit = Visit(task, asked, self._limits)
        try:
            async with self._answer(asked) as answer:
                body = visit.answered(answer.status_code, _headers_of(answer))
                return visit.page(b"" if body is None else await _read(answer, body))
        except NO_ANSWER as error:
            raise visit.failure(error) from error

    async def get(self, url: str) -> tuple[int, bytes]:
        """Fetch a robots.txt or a sitemap for ``AsyncRobots``; follows at most 5 redirects, reads at most 50 MiB.

        Raises:
            Exception: no answer comes, or none that can be read; an error of httpx, an OSError or one of
                taskqueue.http.
        """
        for _ in range(REDIRECTS_MOST + 1):
            async with self._answer(self._requests.for_file(url)) as answer:
                headers = _headers_of(answer)
                target = redirected(answer.status_code, headers, url)
                if target is None:
                    return answer.status_code, await _beginning(answer, Body(headers, MAX_FILE_BYTES))
                url, status = target, answer.status_code
        return status, b""

    async def close(self) -> None:
        """Close the kept connections; the next fetch opens others. Connections of an ended loop are left alone."""
        connections, self._connections = self._connections, None
        if connections is not None and self._loop is asyncio.get_running_loop():
            await connections.aclose()

    async def __aenter__(self) -> AsyncHttp:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @asynccontextmanager
    async def _answer(self, asked: Asked) -> AsyncIterator[httpx.Response]:
        """Yield the head of the answer; its body may be read until the time is over, or the block ends."""
        async with asyncio.timeout(self._limits.seconds):
            answer = await self._head(asked)
            try:
                yield answer
            finally:
                await answer.aclose()

    async def _head(self, asked: Asked) -> httpx.Response:
        """Return the head of the answer. If a kept connection turns out to be closed, try the next one."""
        opened = self._opened()
        while True:
            steps = Steps()
            request = opened.build_request(
                asked.method, asked.url, content=asked.data, headers=asked.headers, extensions={"trace": steps.note}
            )
            try:
                return await opened.send(request, stream=True)
            except (httpx.RemoteProtocolError, httpx.NetworkError):
                if steps.connected or steps.answered or asked.method not in REPEATABLE:
                    raise

    def _opened(self) -> httpx.AsyncClient:
        """Return the connections of the running loop: those of another one can't be used here."""
        loop = asyncio.get_running_loop()
        if self._connections is None or self._loop is not loop:
            seconds = self._limits.seconds
            self._loop = loop
            self._connections = httpx.AsyncClient(
                timeout=httpx.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS)),
                limits=httpx.Limits(max_keepalive_connections=IDLE_MOST),
                trust_env=False,
            )
            self._connections.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=()))
        return self._connections


async def _read(answer: httpx.Response, body: Body) -> bytes:
    async for piece in answer.aiter_raw():
        body.take(piece)
    return body.end()


async def _beginning(answer: httpx.Response, body: Body) -> bytes:
    """Return the body, or as much of it as may be read."""
    try:
        return await _read(answer, body)
    except TooLarge:
        return body.beginning()


def _headers_of(answer: httpx.Response) -> dict[str, str]:
    return {name.lower(): value for name, value in answer.headers.items()}
