"""A lease: who runs a task, and until when."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from taskqueue.core.model.edges import Links
from taskqueue.protocol.fields import Boot
from taskqueue.protocol.values import NewTask


@mypyc_attr(acyclic=True)
class Lease:
    """Who runs a task, and until when.

    Attributes:
        session: of the fetcher.
        number: of the ``select`` message with the task.
        deadline: boot-clock seconds at which it runs out.
        selected_at: boot-clock seconds at which it was handed out.
        deferred: a ``force_update`` that came meanwhile; takes effect when the lease ends.
        check: number of its project's check phase in which it was handed out as a check; 0: it is none.
        links: the edges of the deferred update, which count from its arrival on; None: it has none.
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
        """The task is to be started so many seconds later."""
        self.deadline = Boot(self.deadline + seconds)

    def defer_edges(self, links: Links | None) -> None:
        """Keep the edges of the deferred update; None: it has none."""
        self.links = links
