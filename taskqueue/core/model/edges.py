"""What ties a task to others, its edges and its flow; and what a turn asks the store about edges.

An edge leads from a child, which waits, to a parent, which it waits for:

    parent ──success──► edge satisfied ──the last one──► child released

A task is *blocked* while edges of it are not satisfied. Each time a task is given parents, all of its edges get one new
number; an edge with another number than its child has is *void*: nothing follows from it, and it is deleted later.

A parent's end reaches its children by a *propagation*, which is written with the end and carried on in steps.

Values without behaviour; the rules are in ``moves/edges`` and ``steps/propagation``.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, get_args

from msgspec import Struct

from taskqueue.protocol.choices import ParentFailure

FAIL, RUN, WAIT = range(3)
POLICIES: Final = get_args(ParentFailure)
"""What a task does when a parent has failed, by the number that the store has."""

UNSATISFIED, SATISFIED, OVERLOOKED = range(3)
"""State of an edge. Overlooked: the parent has failed, and the child runs all the same."""

DELETED_PROJECT: Final = 0
"""Stands for the number of a project that is not known any more; tasks of it never succeed."""


class TaskRef(NamedTuple):
    """A task by its identity: project number, taskid."""

    project: int
    taskid: str


class Links(Struct, gc=False):
    """The ties of a task; a task without any has None.

    Attributes:
        has_children: somebody waits for it, or did.
        number: of its edges to parents; 0: it has none.
        missing: how many of these are not satisfied.
        on_failure: what it does when a parent fails, a place in POLICIES.
        flow: number of its flow; 0: it is in none.
    """

    has_children: bool = False
    number: int = 0
    missing: int = 0
    on_failure: int = FAIL
    flow: int = 0


class Edge(NamedTuple):
    """A child and one of the tasks that it waits for."""

    child: TaskRef
    parent: TaskRef


class Mark(NamedTuple):
    """State and number of an edge."""

    state: int
    number: int


PropagationKind = Literal["succeeded", "failed", "forgotten", "edges", "retired"]

TO_CHILDREN: Final = b"c"
TO_PARENTS: Final = b"p"
"""First byte of ``Propagation.after`` of a deleted project: to which ends of its edges it has come."""


class Propagation(NamedTuple):
    """What is to be told along the edges of a task, or of all tasks of a project, step by step.

    succeeded  to its children, whose edges of before that moment are satisfied
    failed     to its children, unless it is live or a success by then
    forgotten  nothing is told: it is awaited from now on, unless nobody waits for it
    edges      from its parents: void edges of it are deleted, failed parents are noticed
    retired    from a project that is deleted, to children elsewhere, for whom its tasks have failed

    Attributes:
        number: when it began; edges with a larger one are of later.
        project, taskid: the task; of ``retired`` the taskid is empty.
        after: the last edge that has been told, as the store's key; empty: none.
    """

    number: int
    kind: PropagationKind
    project: int
    taskid: str
    after: bytes = b""


class EdgesRef(NamedTuple):
    """Edges of a task, in the order of the store's keys: to its parents, or to its children.

    Attributes:
        to_parents: to its parents; if not, to its children.
        project, taskid: the task; without a taskid all tasks of the project.
        after: the key of the last edge of the page before; empty: from the first one.
        limit: number of edges, at most.
    """

    to_parents: bool
    project: int
    taskid: str
    after: bytes
    limit: int


class FoundEdge(NamedTuple):
    """An edge with its mark, and its key in the order that was read."""

    edge: Edge
    mark: Mark
    key: bytes


class FoundEdges(Struct):
    """Answer to an EdgesRef.

    Attributes:
        edges: in the order of the keys.
        end: there are no further ones.
    """

    edges: list[FoundEdge]
    end: bool


class ParentsRef(NamedTuple):
    """Edges from a task to its parents, without the first ``skip`` ones, with the results of these.

    Attributes:
        limit_bytes: the read ends when these results come to it, but not before the first edge.
    """

    project: int
    taskid: str
    skip: int
    limit_bytes: int


class FoundParents(Struct):
    """Answer to a ParentsRef.

    Attributes:
        edges: in the order of the keys.
        end: there are no further ones.
    """

    edges: list[FoundEdge]
    end: bool


class EdgePlace(NamedTuple):
    """Where a walk goes on: at the edges of a task after the one with this key; empty: at its first edge."""

    task: TaskRef
    after: bytes


class WalkRef(NamedTuple):
    """Edges from these places on, then those of the tasks that they lead to, and so on.

    Attributes:
        to_parents: to parents, and their parents; if not, to children.
        places: the places, each with another task.
        limit: number of edges, at most; a task counts as one more.
    """

    to_parents: bool
    places: tuple[EdgePlace, ...]
    limit: int


class PropagationsRef(NamedTuple):
    """The first propagations from number ``first`` on, with the edges that they tell next, ``edges`` at most in all."""

    first: int
    edges: int


class FoundPropagation(NamedTuple):
    """A propagation, and the next edges that it is to tell.

    Attributes:
        others: by parent, of those that are awaited, the first other edges to it; only where edges may be deleted.
    """

    propagation: Propagation
    edges: FoundEdges
    others: dict[TaskRef, list[Edge]]
