"""Facts of a fetch: stated by its fetcher, or derived from an exception; and their form in a report.

    status, headers ──► status_code, etag, last_modified; retry_after, of an answer that refuses
                304 ──► not changed, and the known facts of the page stay

An invalid fact of the fetcher is an error; a header that can't be sent is left out.

An exception of a handler yields the status and headers of an answer, or the reason why there was none. Libraries are
recognised by the names of their classes and by attributes of their exceptions; none is imported. The exception and its
causes are examined one after the other:

    raised ──► __cause__, or __context__ ──► … ; the reason of a URLError

1. The first one with an answer yields status and headers: ``response`` of requests and httpx, ``status`` and
   ``headers`` of aiohttp, ``code`` and ``headers`` of urllib.
2. Else the first one that is known yields the kind. A failure before there was a connection, timeouts included, is
   ``connection``: a dead host is one, however it shows.
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
from taskqueue.protocol.fields import MAX_RETRY_AFTER_SECONDS, MAX_VALIDATOR_CHARS, STATUS_CODES
from taskqueue.protocol.reasons import reason_of
from taskqueue.protocol.values import Fetched

Headers = Mapping[Any, Any] | Iterable[tuple[Any, Any]]
"""Headers of an answer, as requests, httpx, aiohttp, urllib or Scrapy have them: text or bytes, in any case."""

RETRY_AFTER_LEAST: Final = 1.0
"""Shortest pause in seconds: a server that asks for less, or for a past moment, would get the next request at once."""

REFUSALS: Final = 400
"""First status whose Retry-After says when to try again; that of a redirect means something else."""
NOT_MODIFIED: Final = 304

_WANTED: Final = frozenset(("retry-after", "etag", "last-modified", "date"))


class PageFacts(TypedDict, total=False):
    """Facts of a fetch beside the answer's status and headers."""

    seconds: float | None
    error_kind: ErrorKind | None
    changed: bool | None
    content_hash: str
    etag: str
    last_modified: str


class FetchFacts(PageFacts, total=False):
    """All facts of a fetch."""

    status_code: int | None
    headers: Headers | None


def joined(before: Fetched | None, facts: Mapping[str, Any]) -> Fetched:
    """Join earlier facts and new ones, which win; None and empty texts are ignored.

    Raises:
        TypeError: a fact is unknown.
        ValueError: a fact is out of its range; the message names it.
    """
    if unknown := sorted(facts.keys() - set(Fetched.__struct_fields__)):
        raise TypeError(f"{unknown[0]}: unknown; a fetch has {', '.join(sorted(FetchFacts.__annotations__))}")
    said = {} if before is None else msgspec.structs.asdict(before)
    said |= {name: _plain(fact) for name, fact in facts.items() if fact not in (None, "")}
    try:
        return msgspec.convert(said, Fetched)
    except msgspec.ValidationError as error:
        raise ValueError(reason_of(error, kind=Fetched)) from None


def said_by(headers: Headers | None) -> dict[str, str]:
    """Return the relevant headers of an answer, by their names in lower case."""
    if headers is None:
        return {}
    found: dict[str, str] = {}
    for name, value in headers.items() if hasattr(headers, "items") else headers:
        if (known := _text(name).lower()) in _WANTED:
            found[known] = _text(value).strip()
    return found


def validators(headers: Mapping[str, str]) -> dict[str, str]:
    """Return etag and last_modified of the headers; a value too long to be kept is left out."""
    found = {"etag": headers.get("etag", ""), "last_modified": headers.get("last-modified", "")}
    return {name: value for name, value in found.items() if 0 < len(value) <= MAX_VALIDATOR_CHARS}


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds that Retry-After asks for (RFC 9110, section 10.2.3), 1 to 86,400; None: it asks for none.

    Args:
        now: unix seconds, for a date in headers without a ``date`` of their own.
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
    """Return the moment of an HTTP-date; None: it is invalid."""
    try:
        at = parsedate_to_datetime(written)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _text(value: Any) -> str:
    """Return the text of a header's name or value; the last one, if there are several."""
    if isinstance(value, list | tuple):
        value = value[-1] if value else ""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _plain(fact: Any) -> Any:
    """Return the number of a status that is an enumeration member, such as ``http.HTTPStatus``."""
    return int(fact) if isinstance(fact, int) and not isinstance(fact, bool) else fact


CHAIN_MOST: Final = 10
"""Exceptions of a chain that are examined."""

LIBRARIES: Final = ("requests.", "httpx", "httpcore", "urllib3.", "aiohttp.", "curl_cffi.")
"""First letters of modules whose classes are known by name; elsewhere the same names mean other things."""

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
"""Errno values of an OSError without a connection; a timeout with one of them is the kernel's, while it connects."""


class ErrorFacts(NamedTuple):
    """Facts of an exception; ``kind`` is None if there are none."""

    kind: ErrorKind | None
    status_code: int | None = None
    headers: Headers | None = None


def facts_of(error: BaseException) -> ErrorFacts:
    """Return the facts of an exception, or of those that led to it."""
    chain = list(_chain(error))
    for each in chain:
        if (answer := _answer(each)) is not None:
            return answer
    return ErrorFacts(next((kind for each in chain if (kind := _kind(each)) is not None), None))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(CHAIN_MOST):
        if error is None:
            return
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _answer(error: BaseException) -> ErrorFacts | None:
    """Return the answer that an exception carries."""
    response = getattr(error, "response", None)
    if response is not None:
        return _facts_on(response, ("status_code", "status"))
    return _facts_on(error, ("status", "code")) if getattr(error, "headers", None) is not None else None


def _facts_on(carrier: Any, names: tuple[str, ...]) -> ErrorFacts | None:
    for name in names:
        status = getattr(carrier, name, None)
        if isinstance(status, int) and status in STATUS_CODES:
            return ErrorFacts("http", int(status), getattr(carrier, "headers", None))
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
