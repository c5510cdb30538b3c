"""The record of a failed attempt, stored in an order by time: project, host, fetcher and error.

    attempt fails ──► Failure ──put──► family ``failures``, at ``time_key(end of the attempt, number)``

Queries about failures are answered in ``failure_counts``; how many are stored is in ``failure_log``. Successes store
none.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct


class Failure(Struct, array_like=True, frozen=True, gc=False):
    """A failed attempt as it is stored.

    Attributes:
        project: its number.
        host: of the task's url, as its slot is named (``slot_names``); empty if it has none.
        fetcher: name of the fetcher, or its pseudonym if it has none.
        error: what it is about, in one line; the task's history has more.
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
