"""Leases of tasks to fetchers."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from taskqueue.core.model.edges import Links
from taskqueue.protocol.fields import Boot
from taskqueue.protocol.values import NewTask


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
    """

    __slots__ = ("check", "deadline", "deferred", "links", "number", "selected_at", "session")

    def __init__(
        self,
        session: str,
        number: int,
        deadline: Boot,
        selected_at: Boot,
        deferred: NewTask | None = None,
        check: int = 0,
        links: Links | None = None,
    ) -> None:
        self.session = session
        self.number = number
        self.deadline = deadline
        self.selected_at = selected_at
        self.deferred = deferred
        self.check = check
        self.links = links

    def put_off(self, seconds: float) -> None:
        """Move the deadline, because the task is to be started ``seconds`` later."""
        self.deadline = Boot(self.deadline + seconds)

    def defer_edges(self, links: Links | None) -> None:
        """Keep the edges of the deferred update; None if it has none."""
        self.links = links
