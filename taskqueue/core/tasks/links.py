"""What ties a task to others: the edges to the tasks that it waits for, those that wait for it, and its flow.

    parent ──success──► edge satisfied ──the last one──► child released

A task is *blocked* while edges of it are not satisfied. Each time a task is given parents, all of its edges get one new
number; an edge with another number than its child has is *void*: nothing follows from it, and it is deleted later.

A parent's end reaches its children by a *propagation*, which is written with the end and carried on in steps.

Values without behaviour; the rules are in ``rules/dependencies`` and ``rules/propagation``.
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
