"""Ties of a task to others, by edges and by its flow; and requests to the store about edges.

An edge leads from a child, which waits, to a parent, which it waits for:

    parent ──success──► edge satisfied ──the last one──► child released

A task is *blocked* while it has unsatisfied edges. Each time a task is given parents, all of its edges get one new
number; an edge with another number than its child is *void*: it has no effect, and is deleted later.

A parent's end reaches its children by a *propagation*, which is written with the end and carried on in steps.

Values without behaviour; the rules are in ``moves/edges`` and ``steps/propagation``.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, get_args

from msgspec import Struct

from taskqueue.protocol.choices import ParentFailure

FAIL, RUN, WAIT, ONLY = range(4)
POLICIES: Final = get_args(ParentFailure)
"""Reactions of a task to a failed parent, by the stored number."""

UNSATISFIED, SATISFIED, OVERLOOKED, PASSED = range(4)
"""States of an edge. Overlooked: the parent has failed, and the child runs nevertheless, or for that reason. Passed:
the parent has ended without success or failure, such as by a cancel, and the child does not wait for it any more."""

DELETED_PROJECT: Final = 0
"""Placeholder for the number of a deleted project, whose tasks never succeed."""


class TaskRef(NamedTuple):
    """Identity of a task: project number and taskid."""

    project: int
    taskid: str


class Links(Struct, gc=False):
    """Ties of a task; None stands for a task without ties.

    Attributes:
        has_children: True if other tasks wait for it, or did.
        number: number of its edges to parents; 0 if it has none.
        missing: count of unsatisfied edges to parents.
        on_failure: index in POLICIES of its reaction to a failed parent.
        flow: number of its flow; 0 if it is in none.
        needed: True if a parent has failed of a task that runs ``only`` then.
        dropped: True if its last cancel was that of a task that is not needed, or depends on such a task.
    """

    has_children: bool = False
    number: int = 0
    missing: int = 0
    on_failure: int = FAIL
    flow: int = 0
    needed: bool = False
    dropped: bool = False

    @property
    def is_unneeded(self) -> bool:
        """True if the task runs only after a failure, and all of its parents have ended without one."""
        return self.on_failure == ONLY and not self.missing and not self.needed


class Edge(NamedTuple):
    """Edge from a child to a task that it waits for."""

    child: TaskRef
    parent: TaskRef


class Mark(NamedTuple):
    """State and number of an edge."""

    state: int
    number: int


PropagationKind = Literal["succeeded", "failed", "forgotten", "edges", "retired", "restored"]

TO_CHILDREN: Final = b"c"
TO_PARENTS: Final = b"p"
"""First byte of ``Propagation.after`` of a deleted project: the end of its edges that it has reached."""


class Propagation(NamedTuple):
    """Change to be passed on, step by step, along the edges of a task, or of all tasks of a project.

    succeeded  to its children, whose edges made before it are satisfied
    failed     to its children, unless the task is live or a success by then
    forgotten  to no task: marks the task as awaited, if any task waits for it
    edges      from its parents: deletes its void edges, and finds failed parents
    retired    from a deleted project to children in others, for which its tasks have failed
    restored   from a task that was dropped, and is blocked again, to its children, which wait for it again

    Attributes:
        number: number at its start; edges with a larger one were made later.
        project, taskid: the task; the taskid is empty for ``retired``.
        after: the store's key of the last edge reached; empty if none.
    """

    number: int
    kind: PropagationKind
    project: int
    taskid: str
    after: bytes = b""


class EdgesRef(NamedTuple):
    """Request for edges of a task, to its parents or its children, in order of the store's keys.

    Attributes:
        to_parents: True for edges to its parents, False for those to its children.
        project, taskid: the task; with an empty taskid, all tasks of the project.
        after: key of the last edge of the previous page; empty to begin with the first.
        limit: number of edges, at most.
    """

    to_parents: bool
    project: int
    taskid: str
    after: bytes
    limit: int


class FoundEdge(NamedTuple):
    """Edge with its mark, and its key in the order that was read."""

    edge: Edge
    mark: Mark
    key: bytes


class FoundEdges(Struct):
    """Answer to an EdgesRef.

    Attributes:
        edges: edges in order of their keys.
        end: True if there are no more.
    """

    edges: list[FoundEdge]
    end: bool


class ParentsRef(NamedTuple):
    """Request for edges from a task to its parents after the first ``skip`` ones, with the parents' results.

    Attributes:
        limit_bytes: bytes of results at which the read ends, after one edge at least.
    """

    project: int
    taskid: str
    skip: int
    limit_bytes: int


class FoundParents(Struct):
    """Answer to a ParentsRef.

    Attributes:
        edges: edges in order of their keys.
        end: True if there are no more.
    """

    edges: list[FoundEdge]
    end: bool


class EdgePlace(NamedTuple):
    """Place where a walk goes on: at the edges of a task after the one with this key, or at its first edge if empty."""

    task: TaskRef
    after: bytes


class WalkRef(NamedTuple):
    """Request for edges from these places on, then those of the tasks that they lead to, and so on.

    Attributes:
        to_parents: True towards parents, False towards children.
        places: starts, each at a different task.
        limit: number of edges, at most; a task counts as one more.
    """

    to_parents: bool
    places: tuple[EdgePlace, ...]
    limit: int


class PropagationsRef(NamedTuple):
    """Request for propagations from number ``first`` on, with their next edges, at most ``edges`` in all."""

    first: int
    edges: int


class FoundPropagation(NamedTuple):
    """Propagation with the next edges that it reaches.

    Attributes:
        others: first other edges to each awaited parent; only where edges may be deleted.
    """

    propagation: Propagation
    edges: FoundEdges
    others: dict[TaskRef, list[Edge]]
