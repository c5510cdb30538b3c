"""The record of an ended attempt to run a task, stored in its history or, for a final success, in its order."""

from __future__ import annotations

from msgspec import Struct

from taskqueue.protocol.choices import AttemptOutcome


class AttemptRecord(Struct, array_like=True, frozen=True, gc=False):
    """An attempt that ended.

    Attributes:
        at: unix seconds of its end.
        fetcher: name of who ran it, or its pseudonym if it has none; empty: nobody (``expired``).
        seconds: from hand-out to end; 0 if it expired, or succeeded after its lease had run out.
        error: why it failed, ERROR_BYTES at most; empty: it succeeded, or its fetcher gave no reason.
    """

    at: float
    outcome: AttemptOutcome
    fetcher: str = ""
    seconds: float = 0.0
    error: str = ""
