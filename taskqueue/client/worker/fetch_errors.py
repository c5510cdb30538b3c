"""What an exception of a handler tells of its fetch: the status and headers of an answer, or why there was none.

Libraries are known by the names of their classes and by what their exceptions carry; none of them is imported. Looked
at are the exception and what led to it, one after the other:

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
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from urllib.error import URLError

from taskqueue.client.tasks.fetched import Headers
from taskqueue.protocol.choices import ErrorKind
from taskqueue.protocol.fields import STATUS_CODES

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
