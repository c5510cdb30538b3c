"""Set of tasks of a rerun, collected and gone through in steps: values, and changes by one step.

    walk     from the first task along the edges: each task gets a place, each edge between two is stored
    order    tasks that wait for no unordered one come next, so parents come before their children
    reset    in that order, each task that is to run again is blocked
    release  in that order, tasks that wait for no other of the set may run

The stored edges are those that the walk found: later changes don't confuse the order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec import Struct, field

from taskqueue.core.model.edges import TaskRef

if TYPE_CHECKING:
    from taskqueue.core.model.edges import FoundEdges

RerunPhase = Literal["walk", "order", "reset", "release"]

LEFT, RESET, HELD = range(3)
"""Fate of a task: left as it is, blocked by others of the set, or delayed until all others are reset."""


class RerunCursor(Struct, array_like=True):
    """Progress of a rerun.

    Attributes:
        position: number of tasks that it has finished in this phase.
        after: key of the last edge of the next task; empty if none.
        walked, ordered: number of tasks with a place in the walk, and in the order.
        layer: last layer of which a task has been recorded; -1 if none.
        named: number of taskids that have been recorded.
    """

    phase: RerunPhase = "walk"
    position: int = 0
    after: bytes = b""
    walked: int = 0
    ordered: int = 0
    layer: int = -1
    named: int = 0


class RerunMember(Struct, array_like=True):
    """Task that the walk has reached.

    Attributes:
        is_meant: True if it is to run again, False if it only leads to others.
        waiting: number of tasks of the set that it waits for and that have not been ordered yet.
        fate: LEFT, RESET or HELD.
    """

    project: int
    taskid: str
    is_meant: bool
    waiting: int = 0
    fate: int = LEFT

    @property
    def ref(self) -> TaskRef:
        """Identity of the task."""
        return TaskRef(self.project, self.taskid)


class Ordered(NamedTuple):
    """Place in the order: the task's place in the walk, and its layer."""

    position: int
    layer: int


class RerunRef(NamedTuple):
    """Request for the next step of a rerun: ``limit`` tasks and edges of them, about.

    Attributes:
        to_parents: True if the walk goes from tasks to those that they wait for.
        propagations: lower bound of the numbers of propagations that are still to be carried on.
    """

    operation: int
    phase: RerunPhase
    position: int
    after: bytes
    limit: int
    to_parents: bool
    propagations: int


class FoundRerun(Struct):
    """Answer to a RerunRef, with edges of tasks read ahead.

    Attributes:
        members: tasks by place in the walk.
        positions: places in the walk, of tasks that have one.
        order: entries by place in the order.
        edges: walk: edges along which it goes on; reset: edges to all parents.
        children: order: places in the walk of the tasks that wait for the one at a place, the key of the last, and
            whether there are no more.
        successes: reset: by task, number of its last success that its children still have to learn of.
        has_all_successes: False if there are too many.
    """

    members: dict[int, RerunMember] = field(default_factory=dict)
    positions: dict[TaskRef, int] = field(default_factory=dict)
    order: dict[int, Ordered] = field(default_factory=dict)
    edges: dict[TaskRef, FoundEdges] = field(default_factory=dict)
    children: dict[int, FoundChildren] = field(default_factory=dict)
    successes: dict[TaskRef, int] = field(default_factory=dict)
    has_all_successes: bool = True


class FoundChildren(NamedTuple):
    """Children in ``FoundRerun``."""

    positions: list[int]
    last: bytes
    end: bool


class RerunWrites(Struct):
    """Findings of one step.

    Attributes:
        members: new or changed tasks, by place in the walk.
        positions: places in the walk of new tasks.
        edges: edges from a parent to a child, by places in the walk.
        order: new places in the order.
    """

    operation: int
    members: dict[int, RerunMember] = field(default_factory=dict)
    positions: dict[TaskRef, int] = field(default_factory=dict)
    edges: dict[tuple[int, int], None] = field(default_factory=dict)
    order: dict[int, Ordered] = field(default_factory=dict)


class RerunSet:
    """Set during a step: what was looked up, overridden by the step's own changes."""

    __slots__ = ("_found", "cursor", "writes")

    def __init__(self, operation: int, cursor: RerunCursor, found: FoundRerun) -> None:
        self.cursor = cursor
        self._found = found
        self.writes = RerunWrites(operation)

    @property
    def has_all_successes(self) -> bool:
        """True if ``untold_success`` knows all; if not, children must learn of them first."""
        return self._found.has_all_successes

    def note_success(self, ref: TaskRef, number: int) -> None:
        """Record that a task has succeeded in this turn."""
        self._found.successes[ref] = number

    def untold_success(self, ref: TaskRef) -> int:
        """Return the number of the task's last success that its children still have to learn of; 0 if there is none."""
        return self._found.successes.get(ref, 0)

    def member(self, position: int) -> RerunMember:
        """Return the task at a place in the walk, read-only; see ``change``."""
        return self.writes.members.get(position) or self._found.members[position]

    def change(self, position: int) -> RerunMember:
        """Return the task at a place in the walk, to be changed."""
        member = self.writes.members[position] = self.member(position)
        return member

    def position(self, ref: TaskRef) -> int | None:
        """Return the place of a task in the walk; None if it has none."""
        position = self.writes.positions.get(ref)
        return self._found.positions.get(ref) if position is None else position

    def add(self, ref: TaskRef, *, is_meant: bool) -> int:
        """Give a task a place in the walk."""
        position = self.cursor.walked
        self.cursor.walked += 1
        self.writes.members[position] = RerunMember(*ref, is_meant)
        self.writes.positions[ref] = position
        return position

    def connect(self, parent: int, child: int) -> None:
        """Record an edge between two places in the walk."""
        self.writes.edges[parent, child] = None
        self.change(child).waiting += 1

    def append(self, position: int, layer: int) -> None:
        """Give the task at a place in the walk the next place in the order."""
        self.writes.order[self.cursor.ordered] = Ordered(position, layer)
        self.cursor.ordered += 1

    def next_walked(self) -> Iterator[tuple[int, RerunMember, FoundEdges]]:
        """Yield the tasks at the next places in the walk as long as their edges were looked up, and move the cursor."""
        cursor = self.cursor
        while cursor.position < cursor.walked:
            member = self.writes.members.get(cursor.position) or self._found.members.get(cursor.position)
            page = self._found.edges.get(member.ref) if member is not None else None
            if member is None or page is None:
                return
            yield cursor.position, member, page
            if not page.end:
                cursor.after = page.edges[-1].key
                return
            self._advance()

    def next_with_children(self) -> Iterator[tuple[Ordered, list[int]]]:
        """Yield the next entries of the order with their children while these were looked up; move the cursor."""
        cursor = self.cursor
        while cursor.position < cursor.ordered:
            ordered = self.writes.order.get(cursor.position) or self._found.order.get(cursor.position)
            page = self._found.children.get(ordered.position) if ordered is not None else None
            if ordered is None or page is None:
                return
            yield ordered, page.positions
            if not page.end:
                cursor.after = page.last
                return
            self._advance()

    def next_ordered(self) -> Iterator[tuple[int, RerunMember, FoundEdges | None]]:
        """Yield the next entries of the order that were looked up, with edges to parents if found; move the cursor."""
        while self.cursor.position in self._found.order:
            position = self._found.order[self.cursor.position].position
            member = self.member(position)
            yield position, member, self._found.edges.get(member.ref)
            self._advance()

    def begin(self, phase: RerunPhase) -> None:
        """Begin the next phase."""
        self.cursor.phase, self.cursor.position, self.cursor.after = phase, 0, b""

    def _advance(self) -> None:
        self.cursor.position += 1
        self.cursor.after = b""
