"""A list of all slots of a project that is being made: what has been found so far, in bounded memory.

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
"""Smaller ones come first: a number, a name, and the slot's number."""


class SlotScan(Struct):
    """A request for all slots that is in progress.

    Attributes:
        session, n: who asked, and the number of the request.
        project: its number; ``division``: the first number of its division.
        by, limit: which slots are wanted.
        start: the place, or the number of the slot, from which on the rest is; None: all has been looked at.
        count: slots found.
        tasks: in the slot of this number, with which the part before ended, so many have been counted.
        first: the best ones, and some more.
        left: of the best ones, those that are yet to be looked up, in their order.
        views: of those that have been.
    """

    session: Session
    n: int
    project: int
    division: int
    by: SlotSort
    limit: int
    start: int | None
    count: int = 0
    tasks: tuple[int, int] = (0, 0)
    first: list[Rank] = field(default_factory=list)
    left: list[Rank] = field(default_factory=list)
    views: list[Slot] = field(default_factory=list)

    def add(self, ranks: Iterable[Rank]) -> None:
        """Slots have been found."""
        before = len(self.first)
        self.first += ranks
        self.count += len(self.first) - before
        if len(self.first) > 2 * self.limit:
            self.first = nsmallest(self.limit, self.first)

    def tally(self, counts: Iterable[tuple[int, int]], *, end: bool) -> None:
        """So many ready tasks come next, by the number of their slot; ``end``: there are no more."""
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
        """All has been looked at."""
        self.start = None
        self.left = nsmallest(self.limit, self.first)
        self.first.clear()
