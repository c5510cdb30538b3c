"""How the fetch of a task went: as its fetcher says it, or as an exception tells it; and as a report carries it.

    status, headers ──► status_code, etag, last_modified; retry_after, of an answer that refuses
                304 ──► not changed, and what was known of the page stays

What can be no such fact is an error where it is said; what a server says is left out where it can't be sent.

What an exception of a handler tells: the status and headers of an answer, or why there was none. Libraries are known by
the names of their classes and by what their exceptions carry; none of them is imported. Looked at are the exception and
what led to it, one after the other:

    raised ──► __cause__, or __context__ ──► … ; the reason of a URLError

1. The first that carries an answer tells status and headers: ``response`` of requests and httpx, ``status`` and
   ``headers`` of aiohttp, ``code`` and ``headers`` of urllib.
2. Else the first that is known tells the kind. What went wrong before there was a connection, in time or not, is
   ``connection``: a dead host is one, however its death shows.
"""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Final, NamedTuple, TypedDict
from urllib.error import URLError

import msgspec

from taskqueue.protocol.choices import ErrorKind
from taskqueue.protocol.codec import reason_of
from taskqueue.protocol.fields import MAX_RETRY_AFTER_SECONDS, MAX_VALIDATOR_CHARS, STATUS_CODES
from taskqueue.protocol.values import Fetched

Headers = Mapping[Any, Any] | Iterable[tuple[Any, Any]]
"""Of an answer, as requests, httpx, aiohttp, urllib or Scrapy have them: text or bytes, in upper or lower case."""

RETRY_AFTER_LEAST: Final = 1.0
"""Seconds; a server that asks for less, or for a moment that is over, would be asked again at once."""

REFUSALS: Final = 400
"""The first status whose Retry-After says when to try again; that of a redirect says something else."""
NOT_MODIFIED: Final = 304

_WANTED: Final = frozenset(("retry-after", "etag", "last-modified", "date"))


class PageFacts(TypedDict, total=False):
    """What can be said of a fetch beside the answer's status and headers."""

    seconds: float | None
    error_kind: ErrorKind | None
    changed: bool | None
    content_hash: str
    etag: str
    last_modified: str


class FetchFacts(PageFacts, total=False):
    """All that can be said of a fetch."""

    status_code: int | None
    headers: Headers | None


def joined(before: Fetched | None, facts: Mapping[str, Any]) -> Fetched:
    """What was said before, and what is said now, which wins; None or an empty text says nothing.

    Raises:
        TypeError: a fact is unknown.
        ValueError: one is out of its range; the message names it.
    """
    if unknown := sorted(facts.keys() - set(Fetched.__struct_fields__)):
        raise TypeError(f"{unknown[0]}: unknown; a fetch has {', '.join(sorted(FetchFacts.__annotations__))}")
    said = {} if before is None else msgspec.structs.asdict(before)
    said |= {name: _plain(fact) for name, fact in facts.items() if fact not in (None, "")}
    try:
        return msgspec.convert(said, Fetched)
    except msgspec.ValidationError as error:
        raise ValueError(reason_of(error)) from None


def said_by(headers: Headers | None) -> dict[str, str]:
    """Those of an answer's headers that count here, by their names in lower case."""
    if headers is None:
        return {}
    found: dict[str, str] = {}
    for name, value in headers.items() if hasattr(headers, "items") else headers:
        if (known := _text(name).lower()) in _WANTED:
            found[known] = _text(value).strip()
    return found


def validators(headers: Mapping[str, str]) -> dict[str, str]:
    """The etag and last_modified among headers; what is too long to be kept is left out."""
    found = {"etag": headers.get("etag", ""), "last_modified": headers.get("last-modified", "")}
    return {name: value for name, value in found.items() if 0 < len(value) <= MAX_VALIDATOR_CHARS}


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """The seconds that Retry-After asks for (RFC 9110, section 10.2.3), 1 to 86,400; None: it asks for none.

    Args:
        now: unix seconds, for a date in headers that do not say when they were sent.
    """
    said = headers.get("retry-after", "")
    if said.isdecimal() and said.isascii():
        seconds = float(said)
    elif (at := _unix_seconds(said)) is not None:
        sent_at = _unix_seconds(headers.get("date", ""))
        seconds = at - (now if sent_at is None else sent_at)
    else:
        return None
    return min(max(seconds, RETRY_AFTER_LEAST), MAX_RETRY_AFTER_SECONDS)


def _unix_seconds(written: str) -> float | None:
    """The moment of an HTTP-date; None: it is none."""
    try:
        at = parsedate_to_datetime(written)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _text(value: Any) -> str:
    """Of a header's name or value; the last one, if there are several."""
    if isinstance(value, list | tuple):
        value = value[-1] if value else ""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _plain(fact: Any) -> Any:
    """The number of a status that is one of an enumeration, such as ``http.HTTPStatus``."""
    return int(fact) if isinstance(fact, int) and not isinstance(fact, bool) else fact


CHAIN_MOST: Final = 10
"""Exceptions of a chain that are looked at."""

LIBRARIES: Final = ("requests.", "httpx", "httpcore", "urllib3.", "aiohttp.", "curl_cffi.")
"""How the modules begin whose classes are known by name; elsewhere the same names mean other things."""

CONNECTION_CLASSES: Final = frozenset(
    (
        "ConnectTimeout", "ConnectTimeoutError", "ConnectionTimeoutError", "ConnectionError", "NewConnectionError",
        "ProtocolError", "NetworkError", "RemoteProtocolError", "SSLError", "ClientConnectionError",
    )
)  # fmt: skip
TIMEOUT_CLASSES: Final = frozenset(
    ("Timeout", "TimeoutException", "TimeoutError", "ReadTimeout", "ServerTimeoutError", "SocketTimeoutError")
)

UNREACHABLE: Final = frozenset(
    (errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ENETUNREACH, errno.ENETDOWN, errno.ETIMEDOUT, errno.EADDRNOTAVAIL)
)
"""Of an OSError; a timeout that has one is the kernel's, when it connects."""


class Told(NamedTuple):
    """What an exception tells; ``kind`` is None if it tells nothing."""

    kind: ErrorKind | None
    status_code: int | None = None
    headers: Headers | None = None


def told_by(error: BaseException) -> Told:
    """What the exception tells, or those that led to it."""
    chain = list(_chain(error))
    for each in chain:
        if (answer := _answer(each)) is not None:
            return answer
    return Told(next((kind for each in chain if (kind := _kind(each)) is not None), None))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(CHAIN_MOST):
        if error is None:
            return
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _answer(error: BaseException) -> Told | None:
    """The answer that it carries."""
    response = getattr(error, "response", None)
    if response is not None:
        return _told(response, ("status_code", "status"))
    return _told(error, ("status", "code")) if getattr(error, "headers", None) is not None else None


def _told(carrier: Any, names: tuple[str, ...]) -> Told | None:
    for name in names:
        status = getattr(carrier, name, None)
        if isinstance(status, int) and status in STATUS_CODES:
            return Told("http", int(status), getattr(carrier, "headers", None))
    return None


def _kind(error: BaseException) -> ErrorKind | None:
    if isinstance(error, URLError):
        return "connection" if isinstance(error.reason, OSError) else None
    if isinstance(error, ConnectionError | socket.gaierror | socket.herror | ssl.SSLError):
        return "connection"
    names = {kind.__name__ for kind in type(error).__mro__ if kind.__module__.startswith(LIBRARIES)}
    had_connection = "ServerTimeoutError" in names and "ConnectionTimeoutError" not in names  # aiohttp's is both.
    if not names.isdisjoint(CONNECTION_CLASSES) and not had_connection:
        return "connection"
    if isinstance(error, OSError) and error.errno in UNREACHABLE:
        return "connection"
    return "timeout" if isinstance(error, TimeoutError) or not names.isdisjoint(TIMEOUT_CLASSES) else None
