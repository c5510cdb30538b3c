"""The record of an ended attempt to run a task, stored in its history or, for a final success, in its order."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from taskqueue.core.parts.glob import Glob
from taskqueue.error_texts import cut_text, kind_in, kind_line
from taskqueue.protocol.choices import AttemptOutcome


class AttemptRecord(Struct, array_like=True, frozen=True, gc=False):
    """An attempt that ended.

    Attributes:
        at: unix seconds of its end.
        fetcher: name of who ran it, or its pseudonym if it has none; empty: nobody (``expired``).
        seconds: from hand-out to end; 0 if it expired, or succeeded after its lease had run out.
        error: why it failed, TEXT_BYTES at most; empty: it succeeded, or its fetcher gave no reason.
        kind: what the error is about, in one line; empty if ``kind_in`` finds that line in the error. See ``kind_of``.
    """

    at: float
    outcome: AttemptOutcome
    fetcher: str = ""
    seconds: float = 0.0
    error: str = ""
    kind: str = ""


NO_ATTEMPT: Final = AttemptRecord(0.0, "failed")
"""Stands for the last attempt of a task that has none."""


def kind_of(attempt: AttemptRecord) -> str:
    """What the error of an attempt is about, in one line; empty if it has none."""
    return attempt.kind or kind_in(attempt.error)


def as_kept(attempt: AttemptRecord) -> AttemptRecord:
    """The attempt with its error as it is stored, and a kind only if that error does not tell it."""
    kind, error = kind_line(kind_of(attempt)), cut_text(attempt.error)
    return replace(attempt, error=error, kind="" if kind == kind_in(error) else kind)


def error_matches(pattern: Glob, attempt: AttemptRecord) -> bool:
    """Whether the whole error of an attempt matches, or the line that says what it is about."""
    return pattern.matches(attempt.error) or pattern.matches(kind_of(attempt))


def error_cost(pattern: Glob, attempt: AttemptRecord) -> int:
    """Upper bound of the comparisons of ``error_matches``, or half of it if the kind is a line of the error."""
    return pattern.cost(attempt.error) + (pattern.cost(attempt.kind) if attempt.kind else 0)
