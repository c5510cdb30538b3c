"""A failed attempt to run a task, as a small record in an order by time: whose, at which host, by whom, and why.

    attempt fails ──► Failure ──put──► family ``failures``, at ``time_key(end of the attempt, number)``

What people ask of it is in ``failures``, how much of it is kept in ``failure_log``. A success puts nothing.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from msgspec import Struct

HOST_CHARS: Final = 255
"""Of a host and its port; a longer one is cut."""

ERROR_CHARS: Final = 160
"""Of the last line of an error; the history of the task has more."""

_HOST: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://(?:[^/?#@]*@)?([^/?#]*)")


class Failure(Struct, array_like=True, frozen=True, gc=False):
    """A failed attempt, as the store keeps it.

    Attributes:
        project: its number.
        host: of the task's url; "" if it has none.
        fetcher: name of who ran it, or its pseudonym if it has none.
        error: in a short line.
    """

    project: int
    taskid: str
    host: str
    fetcher: str
    error: str


class KeptFailure(NamedTuple):
    """A failure and its key: ``time_key`` of the end of the attempt and the number of the failure."""

    key: int
    failure: Failure


class FailuresRef(NamedTuple):
    """At most ``limit`` failures with keys from ``start`` to below ``end``."""

    start: int
    end: int
    limit: int


class FoundFailures(Struct):
    """Answer to a FailuresRef.

    Attributes:
        failures: in the order of their keys.
        next: key of the first one after these; 0: there are no further ones.
    """

    ref: FailuresRef
    failures: list[KeptFailure]
    next: int


def host_of(url: str) -> str:
    """The host of a url, with its port if it names one, in small letters; "" if there is none, as in ``data:,x``.

    One match: ``urlsplit`` takes some ten times as long, and nothing of the rest is wanted here.
    """
    found = _HOST.match(url)
    return found[1][:HOST_CHARS].lower() if found else ""


def short_error(error: str) -> str:
    """The last line of an error, which says what a traceback comes to; cut where it is long."""
    return error.strip().rpartition("\n")[2].strip()[:ERROR_CHARS]
