"""Leases of tasks to fetchers."""

from __future__ import annotations

from math import inf
from typing import Final, NamedTuple

from mypy_extensions import mypyc_attr

from taskqueue.core.model.edges import Links
from taskqueue.protocol.fields import Boot
from taskqueue.protocol.values import NewTask

LAST_PART: Final = 0.2
"""Part of a lease that is left when its task is noted as slow."""


class TaskNote(NamedTuple):
    """Note that users see beside a task; in memory only, so it ends with the lease, or with the daemon.

    Attributes:
        note: text, or number.
        next_at: boot-clock seconds at which the next one is due; it may come a second before.
    """

    note: str | float
    next_at: float


@mypyc_attr(acyclic=True)
class Lease:
    """Lease of a task: session of its fetcher, and deadline.

    Attributes:
        session: session of the fetcher.
        number: number of the ``select`` message with the task.
        deadline: boot-clock seconds at which it runs out.
        selected_at: boot-clock seconds of the dispatch.
        deferred: a ``force_update`` that came meanwhile; takes effect when the lease ends.
        check: number of the project's check phase in which the task was dispatched as a check; 0 if it was not.
        links: edges of the deferred update, which count from its arrival on; None if it has none.
        slow_at: boot-clock seconds at which four fifths of it will have passed, counted from its last extension, or the
            daemon's start; inf once that was noted. Not stored.
        note: last note; None if there is none.
    """

    __slots__ = (
        "check", "deadline", "deferred", "links", "note", "number", "selected_at", "session", "slow_at",
    )  # fmt: skip

    def __init__(
        self,
        session: str,
        number: int,
        deadline: Boot,
        selected_at: Boot,
        deferred: NewTask | None = None,
        check: int = 0,
        links: Links | None = None,
        slow_at: float = 0.0,
    ) -> None:
        self.session = session
        self.number = number
        self.deadline = deadline
        self.selected_at = selected_at
        self.deferred = deferred
        self.check = check
        self.links = links
        self.slow_at = slow_at or deadline - LAST_PART * (deadline - selected_at)
        self.note: TaskNote | None = None

    @property
    def is_slow(self) -> bool:
        """True if four fifths of it have passed, and that was noted."""
        return self.slow_at == inf

    def put_off(self, seconds: float) -> None:
        """Move the deadline, because the task is to be started ``seconds`` later."""
        self.deadline = Boot(self.deadline + seconds)
        self.slow_at += seconds

    def renew(self, now: Boot, deadline: Boot) -> None:
        """Move the deadline, with the time from now on as the whole of the lease."""
        self.deadline = deadline
        self.slow_at = deadline - LAST_PART * (deadline - now)

    def note_slow(self) -> None:
        """Record that it was noted that four fifths have passed."""
        self.slow_at = inf

    def put_note(self, note: TaskNote) -> None:
        """Replace the note."""
        self.note = note

    def defer_edges(self, links: Links | None) -> None:
        """Keep the edges of the deferred update; None if it has none."""
        self.links = links
