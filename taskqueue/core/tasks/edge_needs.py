"""What a turn asks the store about edges between tasks, and the answers: values without methods.

``needs`` has the rest; ``links`` says what edges and propagations are.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from taskqueue.core.tasks.links import Edge, Mark, Propagation, TaskRef


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
