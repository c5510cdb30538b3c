"""Records of ended attempts: each in its task's history, and each failure also in an order by time.

    attempt ends ──► Attempt ──────► the task's history; for a final success, the task's place in its order
    attempt fails ─► Failure ──put──► family ``failures``, at ``time_key(end of the attempt, number)``

Queries about failures are answered in ``steps/failures``; how many are stored is in ``failure_log``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from taskqueue.core.model.glob import Glob
from taskqueue.protocol.values import Attempt
from taskqueue.texts.error_texts import cut_text, kind_in, kind_line

NO_ATTEMPT: Final = Attempt(0.0, "failed")
"""Placeholder for the last attempt of a task that has none."""


def kind_of(attempt: Attempt) -> str:
    """Return the kind of an attempt's error, in one line; empty if it has no error."""
    return attempt.kind or kind_in(attempt.error)


def as_kept(attempt: Attempt) -> Attempt:
    """Return the attempt with its error as stored, and with a kind only if the error does not show it."""
    kind, error = kind_line(kind_of(attempt)), cut_text(attempt.error)
    return replace(attempt, error=error, kind="" if kind == kind_in(error) else kind)


def error_matches(pattern: Glob, attempt: Attempt) -> bool:
    """Return whether the whole error of an attempt matches, or its kind."""
    return pattern.matches(attempt.error) or pattern.matches(kind_of(attempt))


def error_cost(pattern: Glob, attempt: Attempt) -> int:
    """Return an upper bound of the comparisons of ``error_matches``; half of it if the kind is a line of the error."""
    return pattern.cost(attempt.error) + (pattern.cost(attempt.kind) if attempt.kind else 0)


class Failure(Struct, array_like=True, frozen=True, gc=False):
    """Failed attempt, as stored.

    Attributes:
        project: number of the project.
        host: host of the task's URL, spelled like its slot (``slot_names``); empty if it has none.
        fetcher: name of the fetcher, or its pseudonym if it has none.
        error: kind of the error, in one line; the task's history has more.
    """

    project: int
    taskid: str
    host: str
    fetcher: str
    error: str


class KeptFailure(NamedTuple):
    """Failure with its key: ``time_key`` of the end of the attempt and the number of the failure."""

    key: int
    failure: Failure


class FailuresRef(NamedTuple):
    """Request for at most ``limit`` failures with keys from ``start`` to below ``end``."""

    start: int
    end: int
    limit: int


class FoundFailures(Struct):
    """Answer to a FailuresRef.

    Attributes:
        failures: failures in order of their keys.
        next: key of the first failure after these; 0 if there are no more.
    """

    ref: FailuresRef
    failures: list[KeptFailure]
    next: int
