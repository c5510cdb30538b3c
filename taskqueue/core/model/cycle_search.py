"""Search whether an edge would close a cycle, along the edges from both of its ends at once.

    child ──would wait for──► parent ──► its parents ──► …          up: is the child among them?
    … ◄── its children ◄── child                                    down: is the parent among them?

Both directions find the same cycles. The one that has scanned fewer edges goes on, so the search costs no more than
twice the smaller side. (Two-way search: B. Haeupler, T. Kavitha, R. Mathew, S. Sen, R. Tarjan, Incremental
Cycle Detection, Topological Ordering, and Strong Component Maintenance, 2012.)

A batch is searched item by item; edges that earlier items would change override the stored ones.

The caller reads the edges, in pages, which are forgotten when they are many. A search remembers only the tasks
that it has met.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Final, NamedTuple, TypeVar

from taskqueue.core.model.edges import EdgePlace, TaskRef

T = TypeVar("T", bound=Hashable)

EDGES_MOST = 2_000_000
"""Edges scanned for one task, at most; beyond, the search gives up.

Each edge leads to at most one more task, which takes 200 bytes: 0.4 GB at worst, for the one search under way.
"""

EDGES_KEPT: Final = 65_536
"""Edges that are remembered, at most; beyond, they are read again where they are needed."""

AHEAD: Final = 256
"""Tasks whose edges are read ahead of the search."""

ROUNDS: Final = 3
"""Searches per batch, at most; a cycle found while edges vanish is believed only in the last one."""


def cycle_in(parents: Mapping[T, Iterable[T]], starts: Iterable[T]) -> list[T]:
    """Return tasks that wait for each other, and that one of the starts waits for or is among; empty if there are none.

    Each comes before the one that it waits for, and the first one also comes last.

    Args:
        parents: tasks that each task waits for; those that wait for none may be left out.
    """
    through: set[T] = set()
    for start in starts:
        way: dict[T, Iterator[T]] = {} if start in through else {start: iter(parents.get(start, ()))}
        while way:
            last = next(reversed(way))
            for parent in way[last]:
                if parent in way:
                    met = list(way)
                    return [*met[met.index(parent) :], parent]
                if parent not in through and parent in parents:
                    way[parent] = iter(parents[parent])
                    break
            else:
                through.add(last)
                way.popitem()  # not del, after which reversed would go over the places of all that were deleted
    return []


class PlannedEdges(NamedTuple):
    """Edges that an item of a batch would give its task.

    Attributes:
        place: index of the item in the batch.
        parents: parents that the task gets; if empty, it only loses its present ones.
        deferred: True for edges of a deferred update, which leave the task's present edges in place.
    """

    place: int
    child: TaskRef
    parents: tuple[TaskRef, ...]
    deferred: bool


class Page(NamedTuple):
    """Page of valid edges of a task.

    Attributes:
        ends: tasks at the other ends, each with whether its edge belongs to a deferred update.
        last: key of the last edge read.
        is_last: True if there are no more edges.
    """

    ends: list[tuple[TaskRef, bool]]
    last: bytes
    is_last: bool


NO_EDGES: Final = Page([], b"", True)


class KnownEdges:
    """Pages of edges that were read, in both directions."""

    __slots__ = ("_edges", "_pages")

    def __init__(self) -> None:
        self._pages: dict[tuple[bool, EdgePlace], Page] = {}
        self._edges = 0

    def add(self, to_parents: bool, place: EdgePlace, page: Page) -> None:
        """Remember a page of edges."""
        self._pages[to_parents, place] = page
        self._edges += 1 + len(page.ends)

    def trim(self) -> None:
        """Forget all pages if they have too many edges."""
        if self._edges > EDGES_KEPT:
            self._pages.clear()
            self._edges = 0

    def at(self, to_parents: bool, place: EdgePlace) -> Page | None:
        """Return the page at a place; None if it has to be read. A project that is yet to be created has no edges."""
        return NO_EDGES if place.task.project < 0 else self._pages.get((to_parents, place))


class LaidOver:
    """Changes by the items of a batch, which override stored edges.

    Attributes:
        parents, children: new edges, in both directions.
        void: by child: False if all its stored edges are void, True if only those of its deferred update are.
    """

    __slots__ = ("children", "parents", "void")

    def __init__(self) -> None:
        self.parents: dict[TaskRef, dict[TaskRef, None]] = {}
        self.children: dict[TaskRef, dict[TaskRef, None]] = {}
        self.void: dict[TaskRef, bool] = {}

    def lay(self, planned: PlannedEdges) -> None:
        """Override all earlier edges of a task with those of an item."""
        child = planned.child
        for parent in self.parents.pop(child, ()):
            del self.children[parent][child]
        if planned.parents:
            self.parents[child] = dict.fromkeys(planned.parents)
        for parent in planned.parents:
            self.children.setdefault(parent, {})[child] = None
        self.void[child] = planned.deferred

    def ends(self, to_parents: bool, place: EdgePlace, page: Page) -> Iterator[TaskRef]:
        """Yield the tasks at the other ends of a page's edges; on a task's first page, those of new edges, too."""
        void = self.void
        for end, deferred in page.ends:
            only_deferred = void.get(place.task if to_parents else end)
            if only_deferred is None or (only_deferred and not deferred):
                yield end
        if not place.after:
            yield from (self.parents if to_parents else self.children).get(place.task, ())


class _Side:
    """One direction of a search.

    Attributes:
        met: tasks, each with the task it was reached from, which is nearer to the start.
        line: tasks whose edges are to be scanned.
        after: key of the last scanned edge of the first task in ``line``.
        looked: number of scanned edges.
    """

    __slots__ = ("after", "line", "looked", "met", "to_parents")

    def __init__(self, starts: Iterator[TaskRef], *, to_parents: bool) -> None:
        self.to_parents = to_parents
        self.met: dict[TaskRef, TaskRef | None] = dict.fromkeys(starts)
        self.line = deque(self.met)
        self.after = b""
        self.looked = 0

    @property
    def place(self) -> EdgePlace:
        return EdgePlace(self.line[0], self.after)

    def look(self, page: Page, ends: Iterator[TaskRef], other: _Side) -> TaskRef | None:
        """Scan a page of the first task in the line; return a task that the other side has met, or None."""
        task = self.line[0]
        met = self.met
        for end in ends:
            self.looked += 1
            if end in met:
                continue
            met[end] = task
            if end in other.met:
                return end
            self.line.append(end)
        self.after = b"" if page.is_last else page.last
        if page.is_last:
            self.line.popleft()
        return None

    def way_to(self, task: TaskRef) -> Iterator[TaskRef]:
        """Yield the tasks from one that was met back to the start, without the first."""
        step = self.met[task]
        while step is not None:
            yield step
            step = self.met[step]

    def places(self) -> Iterator[EdgePlace]:
        """Yield the places where the search reads next."""
        if self.line:
            yield self.place
        for task in islice(self.line, 1, None):
            yield EdgePlace(task, b"")


class CycleSearch:
    """Search for a cycle that one task would close.

    Attributes:
        ended: True once the answer is known, or will never be.
        cycle: tasks of the cycle, from the task along parents back to it; empty if it closes none.
        too_large: True if there are too many edges for an answer.
    """

    __slots__ = ("_child", "_down", "_laid", "_up", "cycle", "ended", "too_large")

    def __init__(self, planned: PlannedEdges, laid: LaidOver) -> None:
        self._child = planned.child
        self._up = _Side(iter(planned.parents), to_parents=True)
        self._down = _Side(iter((planned.child,)), to_parents=False)
        self._laid = laid
        self.ended = self.too_large = False
        self.cycle: list[TaskRef] = []

    def go_on(self, known: KnownEdges, budget: int) -> int:
        """Scan known edges until the search ends, others must be read, or the budget is spent; return how many."""
        up, down = self._up, self._down
        began = up.looked + down.looked
        while (looked := up.looked + down.looked) - began < budget and not self.ended:
            side, other = (up, down) if up.looked <= down.looked else (down, up)
            if not side.line or looked > EDGES_MOST:
                self.ended = True
                self.too_large = bool(side.line)
                break
            place = side.place
            page = known.at(side.to_parents, place)
            if page is None:
                break
            meeting = side.look(page, self._laid.ends(side.to_parents, place, page), other)
            if meeting is not None:
                self.ended = True
                self.cycle = [self._child, *reversed(list(up.way_to(meeting))), meeting, *down.way_to(meeting)]
        return up.looked + down.looked - began

    def places(self, to_parents: bool) -> Iterator[EdgePlace]:
        """Yield the places where one direction reads next."""
        return (self._up if to_parents else self._down).places()


class BatchSearch:
    """Searches for the items of a batch that need one, in order.

    Attributes:
        disturbed: True if edges have vanished since it began, so that a cycle it found may be gone.
        cycles: cycles by index of the item that closes one; None if there are too many edges for an answer.
    """

    __slots__ = ("_current", "_laid", "_left", "_searched", "cycles", "disturbed", "known", "rounds")

    def __init__(self, plan: tuple[PlannedEdges, ...], searched: Mapping[int, None], rounds: int = 1) -> None:
        """``searched``: indices of the items that need a search."""
        self.known = KnownEdges()
        self.rounds = rounds
        self.disturbed = False
        self.cycles: dict[int, list[TaskRef] | None] = {}
        self._searched = searched
        self._left = deque(plan)
        self._laid = LaidOver()
        self._current: CycleSearch | None = None

    @property
    def ended(self) -> bool:
        """True once the answer is known for every item."""
        return not self._left

    @property
    def in_doubt(self) -> bool:
        """True if the batch has to be searched once more."""
        return self.ended and self.disturbed and self.rounds < ROUNDS and any(self.cycles.values())

    def go_on(self, budget: int) -> None:
        """Continue the searches with the known edges."""
        while self._left and budget > 0:
            planned = self._left[0]
            if planned.place in self._searched:
                search = self._current = self._current or CycleSearch(planned, self._laid)
                budget -= search.go_on(self.known, budget)
                if not search.ended:
                    return
                self._current = None
                if search.cycle or search.too_large:
                    self.cycles[planned.place] = search.cycle or None
            if planned.place not in self.cycles:
                self._laid.lay(planned)
            self._left.popleft()

    def places(self, to_parents: bool) -> tuple[EdgePlace, ...]:
        """Return where to read edges in one direction: at the present search, and at the starts of the next ones."""
        first: dict[TaskRef, EdgePlace] = {}
        for place in islice(self._unknown(to_parents), AHEAD):
            first.setdefault(place.task, place)
        return tuple(first.values())

    def _unknown(self, to_parents: bool) -> Iterator[EdgePlace]:
        here = self._current.places(to_parents) if self._current is not None else iter(())
        for place in chain(here, self._starts(to_parents)):
            if self.known.at(to_parents, place) is None:
                yield place

    def _starts(self, to_parents: bool) -> Iterator[EdgePlace]:
        for planned in islice(self._left, AHEAD):
            if planned.place in self._searched:
                for task in planned.parents if to_parents else (planned.child,):
                    yield EdgePlace(task, b"")
