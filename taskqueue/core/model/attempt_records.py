"""Records of ended attempts to run a task: one in the task's history, and a failure also in an order by time.

    attempt ends ──► Attempt ──────► the task's history; of a final success, the task's place in its order
    attempt fails ─► Failure ──put──► family ``failures``, at ``time_key(end of the attempt, number)``

Queries about failures are answered in ``steps/failures``; how many are stored is in ``failure_log``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from taskqueue.core.model.glob import Glob
from taskqueue.error_texts import cut_text, kind_in, kind_line
from taskqueue.protocol.values import Attempt

NO_ATTEMPT: Final = Attempt(0.0, "failed")
"""Stands for the last attempt of a task that has none."""


def kind_of(attempt: Attempt) -> str:
    """What the error of an attempt is about, in one line; empty if it has none."""
    return attempt.kind or kind_in(attempt.error)


def as_kept(attempt: Attempt) -> Attempt:
    """The attempt with its error as it is stored, and a kind only if that error does not tell it."""
    kind, error = kind_line(kind_of(attempt)), cut_text(attempt.error)
    return replace(attempt, error=error, kind="" if kind == kind_in(error) else kind)


def error_matches(pattern: Glob, attempt: Attempt) -> bool:
    """Whether the whole error of an attempt matches, or the line that says what it is about."""
    return pattern.matches(attempt.error) or pattern.matches(kind_of(attempt))


def error_cost(pattern: Glob, attempt: Attempt) -> int:
    """Upper bound of the comparisons of ``error_matches``, or half of it if the kind is a line of the error."""
    return pattern.cost(attempt.error) + (pattern.cost(attempt.kind) if attempt.kind else 0)


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
