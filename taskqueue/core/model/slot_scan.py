"""Lists of all slots of a project while they are made, in bounded memory.

by backlog    ready tasks ──counted by slot──► the first slots ──looked up──► answered
otherwise     all slots   ──────compared─────► the first slots ──looked up──► answered
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nsmallest

from msgspec import Struct, field

from taskqueue.core.model.session import Session
from taskqueue.protocol.choices import SlotSort
from taskqueue.protocol.slots import Slot

Rank = tuple[float, str, int]
"""Sort key, smallest first: a number, a name, and the slot's number."""


class SlotScan(Struct):
    """Unfinished request for all slots.

    Attributes:
        session, n: session and number of the request.
        project: number of the project; ``division``: first number of its division.
        by, limit: order of the slots, and how many are wanted.
        cuts: ``cuts`` of its session when it began.
        start: place, or number of the slot, from which the scan goes on; None if everything has been scanned.
        count: number of slots found.
        tasks: number of the slot at the end of the last page, and its tasks counted so far.
        first: the best slots, and some more.
        left: those of the best slots that are yet to be looked up, in order.
        views: those that have been.
    """

    session: Session
    n: int
    project: int
    division: int
    by: SlotSort
    limit: int
    cuts: int
    start: int | None
    count: int = 0
    tasks: tuple[int, int] = (0, 0)
    first: list[Rank] = field(default_factory=list)
    left: list[Rank] = field(default_factory=list)
    views: list[Slot] = field(default_factory=list)

    def add(self, ranks: Iterable[Rank]) -> None:
        """Add slots that were found."""
        before = len(self.first)
        self.first += ranks
        self.count += len(self.first) - before
        if len(self.first) > 2 * self.limit:
            self.first = nsmallest(self.limit, self.first)

    def tally(self, counts: Iterable[tuple[int, int]], *, end: bool) -> None:
        """Add counts of ready tasks by slot number; with ``end`` there are no more."""
        found: list[Rank] = []
        number, tasks = self.tasks
        for each, more in counts:
            if each != number and tasks:
                found.append((-tasks, "", number))
            number, tasks = each, more + (tasks if each == number else 0)
        if end and tasks:
            found.append((-tasks, "", number))
        self.tasks = number, tasks
        self.add(found)

    def finish(self) -> None:
        """End the scan, and choose the best slots."""
        self.start = None
        self.left = nsmallest(self.limit, self.first)
        self.first.clear()
