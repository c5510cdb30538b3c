"""The set of tasks of a rerun, as it is collected and gone through in steps: values, and what one step changes of them.

    walk     from the first task along the edges: each task gets a place, each edge between two is noted
    order    what waits for none that has not been ordered, comes next: so parents come before their children
    reset    in that order, each task that is meant is blocked
    release  in that order, what waits for no other of the set may run

The noted edges are as they were when the walk came by: what changes meanwhile does not confuse the order.
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
"""What became of a task: left as it is, blocked by others of the set, or held until all others are reset."""


class RerunCursor(Struct, array_like=True):
    """How far a rerun has come.

    Attributes:
        position: in this phase, how many tasks it is through with.
        after: of the next one, the key of the last edge; empty: none.
        walked, ordered: how many tasks have a place, and have a place in the order.
        layer: the last one of which a task has been noted; -1: none.
        named: how many taskids have been noted.
    """

    phase: RerunPhase = "walk"
    position: int = 0
    after: bytes = b""
    walked: int = 0
    ordered: int = 0
    layer: int = -1
    named: int = 0


class RerunMember(Struct, array_like=True):
    """A task that the walk came to.

    Attributes:
        is_meant: it is to run again; if not, it only leads to others.
        waiting: how many of the set it waits for that have not been ordered yet.
        fate: LEFT, RESET or HELD.
    """

    project: int
    taskid: str
    is_meant: bool
    waiting: int = 0
    fate: int = LEFT

    @property
    def ref(self) -> TaskRef:
        """Its identity."""
        return TaskRef(self.project, self.taskid)


class Ordered(NamedTuple):
    """A place in the order: the task's place in the walk, and its layer."""

    position: int
    layer: int


class RerunRef(NamedTuple):
    """What the next step of a rerun needs; ``limit`` tasks and edges of them, about.

    Attributes:
        to_parents: the walk goes from tasks to those that they wait for.
        propagations: no propagation that is still to be carried on has a smaller number.
    """

    operation: int
    phase: RerunPhase
    position: int
    after: bytes
    limit: int
    to_parents: bool
    propagations: int


class FoundRerun(Struct):
    """Answer to a RerunRef. Where edges are read ahead, from tasks that the step will come to if nothing is against it.

    Attributes:
        members: by place in the walk.
        positions: places in the walk, of those tasks that have one.
        order: by place in the order.
        edges: walk: to where it goes on; reset: to all parents.
        children: order: places in the walk of those that wait for the task at one, the key of the last, and whether
            there are further ones.
        successes: reset: by task, the number of its last success that its children have still to be told of.
        has_all_successes: if not, there are too many.
    """

    members: dict[int, RerunMember] = field(default_factory=dict)
    positions: dict[TaskRef, int] = field(default_factory=dict)
    order: dict[int, Ordered] = field(default_factory=dict)
    edges: dict[TaskRef, FoundEdges] = field(default_factory=dict)
    children: dict[int, FoundChildren] = field(default_factory=dict)
    successes: dict[TaskRef, int] = field(default_factory=dict)
    has_all_successes: bool = True


class FoundChildren(NamedTuple):
    """See ``FoundRerun``."""

    positions: list[int]
    last: bytes
    end: bool


class RerunWrites(Struct):
    """What one step has found out.

    Attributes:
        members: that are new or have changed, by place in the walk.
        positions: of the new ones.
        edges: from a parent to a child, by places in the walk.
        order: new places in the order.
    """

    operation: int
    members: dict[int, RerunMember] = field(default_factory=dict)
    positions: dict[TaskRef, int] = field(default_factory=dict)
    edges: dict[tuple[int, int], None] = field(default_factory=dict)
    order: dict[int, Ordered] = field(default_factory=dict)


class RerunSet:
    """The set during a step: what was found, with the step's own changes laid over."""

    __slots__ = ("_found", "cursor", "writes")

    def __init__(self, operation: int, cursor: RerunCursor, found: FoundRerun) -> None:
        self.cursor = cursor
        self._found = found
        self.writes = RerunWrites(operation)

    @property
    def has_all_successes(self) -> bool:
        """Whether ``untold_success`` knows all; if not, they are to be told first."""
        return self._found.has_all_successes

    def note_success(self, ref: TaskRef, number: int) -> None:
        """A task has succeeded in this very turn."""
        self._found.successes[ref] = number

    def untold_success(self, ref: TaskRef) -> int:
        """The number of the task's last success that its children had still to be told of; 0: there is none."""
        return self._found.successes.get(ref, 0)

    def member(self, position: int) -> RerunMember:
        """The task at a place in the walk, to be read; see ``change``."""
        return self.writes.members.get(position) or self._found.members[position]

    def change(self, position: int) -> RerunMember:
        """The task at a place in the walk, to be changed."""
        member = self.writes.members[position] = self.member(position)
        return member

    def position(self, ref: TaskRef) -> int | None:
        """The place of a task in the walk; None: it has none."""
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
        """Note an edge between two places in the walk."""
        self.writes.edges[parent, child] = None
        self.change(child).waiting += 1

    def append(self, position: int, layer: int) -> None:
        """Give the task at a place in the walk the next place in the order."""
        self.writes.order[self.cursor.ordered] = Ordered(position, layer)
        self.cursor.ordered += 1

    def next_walked(self) -> Iterator[tuple[int, RerunMember, FoundEdges]]:
        """The tasks at the next places in the walk as long as their edges were found; the cursor follows."""
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
        """The next ones in the order and those who wait for them, as long as these were found; the cursor follows."""
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
        """The next ones in the order that were found, with their edges to parents if these were; the cursor follows."""
        while self.cursor.position in self._found.order:
            position = self._found.order[self.cursor.position].position
            member = self.member(position)
            yield position, member, self._found.edges.get(member.ref)
            self._advance()

    def begin(self, phase: RerunPhase) -> None:
        """Go on to the next phase."""
        self.cursor.phase, self.cursor.position, self.cursor.after = phase, 0, b""

    def _advance(self) -> None:
        self.cursor.position += 1
        self.cursor.after = b""
