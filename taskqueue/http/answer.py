"""Request for a task, and outcome of its answer. Reads no socket: ``Http`` and ``AsyncHttp`` share it.

    status                           outcome
    below 400                        a Page; a redirect is not followed, its target is among the page's links
    429, 503, 408, 425, other 5xx    Retry: after Retry-After, else by the project's table, or as its slot backs off
    other 4xx                        Drop: the same request would get the same answer

    no answer                        Retry by the table: no connection, not in time, or broken off
    an answer that is too large      Drop

``task.fetched`` records the status, the relevant headers and the kind of error, whatever the outcome.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from http import HTTPStatus
from math import inf
from typing import Any, Final, NamedTuple, Unpack
from urllib.parse import urlencode

from msgspec import Struct

from taskqueue.client.arguments import checked_count, checked_seconds
from taskqueue.client.hyperlinks import LinkOptions, links, page_text
from taskqueue.client.tasks.fetched import REFUSALS, facts_of
from taskqueue.client.tasks.task import Task
from taskqueue.client.web_urls import web_url
from taskqueue.client.worker.outcome import Drop, Retry
from taskqueue.http.body import CODINGS, Body, Broken, TooLarge, UnknownCoding
from taskqueue.protocol.fields import STATUS_CODES


class Page(Struct, frozen=True):
    """An answer whose status is below 400.

    Attributes:
        url: requested URL, written as ``taskqueue.links`` writes URLs.
        status: 200, or another one below 400: redirects are not followed.
        headers: by names in lower case; values of a repeated header are joined by commas.
        body: the body without its Content-Encoding.
    """

    url: str
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """Body as text, decoded at each access.

        Its charset is that of its byte order mark, else of the header, else of the page's own declaration, else UTF-8
        or, if it is not valid, windows-1252. Bytes that can't be decoded are replaced.
        """
        return page_text(self.body, self.headers.get("content-type", "")).text

    def links(self, **options: Unpack[LinkOptions]) -> list[str]:
        """Return the URLs that the page links to, a redirect's target included; options as in ``taskqueue.links``."""
        return links(self.body, self.url, headers=self.headers, **options)


TOTAL_SECONDS: Final = 30.0
"""Time from the beginning of a fetch to its end: less than the time after which a silent fetcher's tasks are dispatched
again.
"""

CONNECT_SECONDS: Final = 10.0

MAX_PAGE_BYTES: Final = 8 << 20
MAX_FILE_BYTES: Final = 50 << 20
"""Most bytes of a robots.txt or sitemap, as ``taskqueue.robots`` reads them."""

REDIRECTS_MOST: Final = 5
"""Redirects followed to a robots.txt (RFC 9309, section 2.3.1.2), or a sitemap."""

PIECE_BYTES: Final = 64 << 10

REDIRECTS: Final = 300
SERVER_ERRORS: Final = 500
"""First status of each kind."""

AGAIN: Final = frozenset((408, 425, 429))
"""Statuses below 500 that may change later: Request Timeout, Too Early, Too Many Requests."""

REPEATABLE: Final = ("GET", "HEAD")
"""Methods of requests that may be sent again over another connection, if the kept one turns out to be closed."""

ERROR_CHARS: Final = 300
"""Characters of a library's error text."""


class Limits(NamedTuple):
    """Bounds of one answer: seconds from the request to its last byte, and bytes of its decoded body."""

    seconds: float
    max_bytes: int


class Asked(NamedTuple):
    """A request; the names of its headers are in lower case."""

    url: str
    headers: dict[str, str]
    method: str = "GET"
    data: bytes | None = None


class Requests:
    """Maker of requests with common headers.

    Args:
        agent: the User-Agent.
        headers: further headers.
    """

    def __init__(self, agent: str, headers: Mapping[str, str] | None) -> None:
        if not agent.strip():
            raise ValueError("agent: name your crawler, such as examplebot/1.0 (+https://example.com/bot)")
        self._headers = {"user-agent": agent, "accept": "*/*", "accept-encoding": CODINGS} | lowered(headers)

    def for_task(self, task: Task, headers: Mapping[str, str] | None, conditional: bool) -> Asked:
        """Make the request for a task from its ``fetch`` (method, headers, data) and the caller's headers.

        The caller's headers win.

        Raises:
            Drop: its URL is not http or https.
        """
        page = web_url(task.url)
        if page is None:
            raise Drop(f"not a URL of http or https: {task.url:.200}")
        fetch = task.fetch if isinstance(task.fetch, dict) else {}
        said = self._headers | lowered(fetch.get("headers")) | lowered(task.conditional if conditional else None)
        data, form = _as_bytes(fetch.get("data"))
        return Asked(page.text, form | said | lowered(headers), str(fetch.get("method") or "GET").upper(), data)

    def for_file(self, url: str) -> Asked:
        """Make the request for a file of a site, such as its robots.txt."""
        return Asked(url, self._headers)


class Visit:
    """One fetch of a task, from now on: its request, its answer, and its outcome."""

    def __init__(self, task: Task, asked: Asked, limits: Limits) -> None:
        task.fetch_began_at = time.monotonic()
        self._task = task
        self._asked = asked
        self._limits = limits
        self._status: int | None = None
        self._headers: dict[str, str] = {}

    def answered(self, status: int, headers: dict[str, str]) -> Body | None:
        """Process the head of the answer; returns the receiver of its body, or None if it is not to be read.

        Raises:
            Drop, Retry: the status decides.
            Broken, TooLarge: see ``failure``.
        """
        if status not in STATUS_CODES:
            raise Broken(f"its status is {status}")
        self._status, self._headers = status, headers
        self._task.fetched(status, headers)
        if status >= REFUSALS:
            raise self._refusal(status)
        if status >= REDIRECTS:
            return None
        if is_over(headers.get("content-length", ""), self._limits.max_bytes):
            raise TooLarge(f"{int(headers['content-length']):,} bytes")
        return Body(headers, self._limits.max_bytes)

    def page(self, body: bytes) -> Page:
        """Make the page of the complete body."""
        assert self._status is not None
        return Page(self._asked.url, self._status, self._headers, body)

    def failure(self, error: Exception) -> Drop | Retry:
        """Return the outcome of an error before the answer was complete."""
        said = described(error)
        if isinstance(error, TooLarge):
            return Drop(f"too large: {said}, and max_bytes is {self._limits.max_bytes:,}")
        if isinstance(error, UnknownCoding):
            return Drop(said)
        kind = facts_of(error).kind or "other"
        # A host that has begun to answer is alive: its slot need not back off.
        self._task.fetched(error_kind="other" if kind == "connection" and self._status is not None else kind)
        return Retry(reason=f"timed out: {self._limits.seconds:g} s for all of it" if kind == "timeout" else said)

    def _refusal(self, status: int) -> Drop | Retry:
        self._task.fetched(error_kind="http")
        said = f"{status} {_phrase(status)}".rstrip()
        if status in AGAIN or status >= SERVER_ERRORS:
            return Retry(self._task.retry_after, said, status_code=status)
        return Drop(said)


def checked_limits(timeout: float, max_bytes: int) -> Limits:
    """Return the limits of a fetch.

    Raises:
        TypeError, ValueError: a limit is invalid.
    """
    if not 0 < checked_seconds("timeout", timeout) < inf:
        raise ValueError(f"timeout: expected a finite number of seconds above 0, got {timeout}")
    return Limits(timeout, checked_count("max_bytes", max_bytes))


def lowered(headers: Mapping[Any, Any] | None) -> dict[str, str]:
    """Return headers with their names in lower case."""
    return {str(name).lower(): str(value) for name, value in (headers or {}).items()}


def redirected(status: int, headers: Mapping[str, str], url: str) -> str | None:
    """Return the target of a redirect, if it is http or https; None otherwise."""
    location = headers.get("location", "") if REDIRECTS <= status < REFUSALS else ""
    target = web_url(location, url) if location else None
    return None if target is None else target.text


def is_over(content_length: str, most: int) -> bool:
    """Return True if the Content-Length is more than ``most``."""
    return (
        content_length.isdecimal()
        and content_length.isascii()
        and len(content_length) < 20
        and int(content_length) > most
    )


def described(error: BaseException) -> str:
    """Return an error for operators, in one line."""
    said = " ".join(str(error).split())[:ERROR_CHARS]
    return said if isinstance(error, TooLarge | UnknownCoding | Broken) else f"{type(error).__name__}: {said}"


def _as_bytes(data: Any) -> tuple[bytes | None, dict[str, str]]:
    """Return the data to send, and the header of its type; a map is a form."""
    match data:
        case None | bytes():
            return data, {}
        case str():
            return data.encode(), {}
        case dict():
            return urlencode(data, doseq=True).encode(), {"content-type": "application/x-www-form-urlencoded"}
    raise TypeError(f"task.fetch: data: expected bytes, text or a map, got {type(data).__name__}")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
