"""Whether an edge would close a cycle: a search along the edges, from both of its ends in step.

    child ──would wait for──► parent ──► its parents ──► …          up: is the child among them?
    … ◄── its children ◄── child                                    down: is the parent among them?

Both directions find the same cycles. The one that has looked at fewer edges goes on, so the search costs no more than
twice what the smaller side has. (Two-way search: B. Haeupler, T. Kavitha, R. Mathew, S. Sen, R. Tarjan, Incremental
Cycle Detection, Topological Ordering, and Strong Component Maintenance, 2012.)

A batch is searched item by item; what earlier ones of its items would change is laid over what the store has.

The edges are read by others, in pages, and forgotten when they are many; what is remembered of a search is the tasks
that it has met.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Final, NamedTuple

from taskqueue.core.model.edges import EdgePlace, TaskRef

EDGES_MOST = 2_000_000
"""Edges that are looked at for one task; more are too many to know. Each leads to one more task at most, and one that
was met takes 200 bytes: 0.4 GB at worst, for the one search that is under way.
"""

EDGES_KEPT: Final = 65_536
"""Edges that are read and remembered; beyond, they are read anew where they are needed again."""

AHEAD: Final = 256
"""Tasks whose edges are read at once, at which the search has not arrived yet."""

ROUNDS: Final = 3
"""Searches for one batch; a cycle that is found while edges vanish is believed the last time only."""


class PlannedEdges(NamedTuple):
    """The edges that an item of a batch would have its task given.

    Attributes:
        place: index of the item.
        parents: of the task; none: it only loses those that it has.
        deferred: they are those of a deferred update, so what the task waits for now stays.
    """

    place: int
    child: TaskRef
    parents: tuple[TaskRef, ...]
    deferred: bool


class Page(NamedTuple):
    """Valid edges of a task, read from a place on.

    Attributes:
        ends: the tasks at the other ends, and whether the edge is one of a deferred update.
        last: the key of the last edge that was read.
        is_last: there are no further ones.
    """

    ends: list[tuple[TaskRef, bool]]
    last: bytes
    is_last: bool


NO_EDGES: Final = Page([], b"", True)


class KnownEdges:
    """Edges that were read, in both directions."""

    __slots__ = ("_edges", "_pages")

    def __init__(self) -> None:
        self._pages: dict[tuple[bool, EdgePlace], Page] = {}
        self._edges = 0

    def add(self, to_parents: bool, place: EdgePlace, page: Page) -> None:
        """Remember a page."""
        self._pages[to_parents, place] = page
        self._edges += 1 + len(page.ends)

    def trim(self) -> None:
        """Forget everything if it is much."""
        if self._edges > EDGES_KEPT:
            self._pages.clear()
            self._edges = 0

    def at(self, to_parents: bool, place: EdgePlace) -> Page | None:
        """The page at a place; None: it has to be read. A project that is yet to be made has no edges."""
        return NO_EDGES if place.task.project < 0 else self._pages.get((to_parents, place))


class LaidOver:
    """What the items of a batch change, over what the store has.

    Attributes:
        parents, children: edges that are made.
        void: of a child: False if all of its stored edges are void, True if those of its deferred update are.
    """

    __slots__ = ("children", "parents", "void")

    def __init__(self) -> None:
        self.parents: dict[TaskRef, dict[TaskRef, None]] = {}
        self.children: dict[TaskRef, dict[TaskRef, None]] = {}
        self.void: dict[TaskRef, bool] = {}

    def lay(self, planned: PlannedEdges) -> None:
        """Lay the edges of an item over everything before."""
        child = planned.child
        for parent in self.parents.pop(child, ()):
            del self.children[parent][child]
        if planned.parents:
            self.parents[child] = dict.fromkeys(planned.parents)
        for parent in planned.parents:
            self.children.setdefault(parent, {})[child] = None
        self.void[child] = planned.deferred

    def ends(self, to_parents: bool, place: EdgePlace, page: Page) -> Iterator[TaskRef]:
        """The tasks at the other ends of the edges on a page; on the first one, of those too that were laid over."""
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
        met: tasks, each with the one that it was met from, which is nearer to the start.
        line: those whose edges are to be looked at.
        after: of the first of these, the key of the last edge that has been.
        looked: edges looked at.
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
        """Look at a page of the first task in the line; returns a task that the other side has met, if it is there."""
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
        """From a task that was met back to the start, without the task."""
        step = self.met[task]
        while step is not None:
            yield step
            step = self.met[step]

    def places(self) -> Iterator[EdgePlace]:
        """The places that it comes to next."""
        if self.line:
            yield self.place
        for task in islice(self.line, 1, None):
            yield EdgePlace(task, b"")


class CycleSearch:
    """Whether one task would close a cycle.

    Attributes:
        ended: it is known, or will not be.
        cycle: from the task along its parents to itself; empty: it closes none.
        too_large: there are too many edges to know.
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
        """Look at edges that are known, until it has ended, others must be read, or the budget is spent; returns how
        many were looked at.
        """
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
        """The places that one direction comes to next."""
        return (self._up if to_parents else self._down).places()


class BatchSearch:
    """A search for each item of a batch that needs one, in their order.

    Attributes:
        disturbed: edges have vanished since it began, so a cycle that was found may be none.
        cycles: by index of the items that close one: the cycle; None: there are too many edges to know.
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
        """Whether it is known of each item."""
        return not self._left

    @property
    def in_doubt(self) -> bool:
        """It has to be done once more."""
        return self.ended and self.disturbed and self.rounds < ROUNDS and any(self.cycles.values())

    def go_on(self, budget: int) -> None:
        """Go on with what is known."""
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
        """Where to read edges in one direction: where the search stands, and where the next ones begin."""
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
