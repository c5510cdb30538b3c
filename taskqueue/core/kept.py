"""What the core asks of the store and what it gives the store to keep: values without methods.

    needs(now, heard) ──► Needs ──► store: look up ──► Found ──► step(now, heard, found) ──► Kept ──► store: write
                                                          load at start: Loaded

What was found is as old as the look-up; the turn's own changes are laid over it by the core, so that a ``done`` and
a ``new-task`` of one task in one turn see each other.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct, field

from taskqueue.core.messages import Setting
from taskqueue.core.replies import AnyReply, Counts, ProjectState, Totals
from taskqueue.core.task import Move, Spec, Task


class TaskRef(NamedTuple):
    """A task by its identity: project number, taskid."""

    project: int
    taskid: str


class SpecRef(NamedTuple):
    """A task's spec in the store: project number, seq."""

    project: int
    seq: int


class OrderRef(NamedTuple):
    """The next entries of an order: at most ``limit`` tasks of ``state`` with keys of at least ``start``.

    The read also ends when the urls and bodies read come to ``limit_bytes``, but not before the first task.
    """

    project: int
    state: int
    start: int
    limit: int
    limit_bytes: int


class Needs(Struct):
    """What the core wants looked up before it decides.

    Attributes:
        tasks: by taskid, without their specs.
        whole: by taskid, with their specs and last errors.
        specs: of hollow tasks in memory.
        orders: the next entries of orders that ran low.
        sessions: whose kept outcomes are wanted.
    """

    tasks: list[TaskRef] = field(default_factory=list)
    whole: list[TaskRef] = field(default_factory=list)
    specs: list[SpecRef] = field(default_factory=list)
    orders: list[OrderRef] = field(default_factory=list)
    sessions: list[str] = field(default_factory=list)


class FoundOrder(Struct):
    """Answer to an OrderRef.

    Attributes:
        tasks: with specs, in the order of their keys; their kept_state and kept_key say where they are.
        end: there are no further entries in the order.
    """

    ref: OrderRef
    tasks: list[Task]
    end: bool


class Found(Struct):
    """What was looked up. What the store doesn't know is not in the maps.

    Attributes:
        tasks: answers ``Needs.tasks`` and ``Needs.whole``, by TaskRef. What it says of a task that is processing is
            older than its lease, which is in memory.
        errors: of the tasks in ``Needs.whole`` that have one, by SpecRef (also for those known in memory).
        sessions: outcomes by request number; a session the store doesn't know has an empty map.
    """

    tasks: dict[tuple[int, str], Task] = field(default_factory=dict)
    specs: dict[SpecRef, Spec] = field(default_factory=dict)
    errors: dict[SpecRef, str] = field(default_factory=dict)
    orders: list[FoundOrder] = field(default_factory=list)
    sessions: dict[str, dict[int, AnyReply]] = field(default_factory=dict)


class ProjectRecord(Struct, array_like=True):
    """A project as the store keeps it; written in each batch that changes anything of it.

    Attributes:
        number: first part of its keys; retired, never reused, when it is deleted.
        overrides: settings said by ``project-set``.
        bucket_level: tokens at bucket_at (boot-clock seconds).
        ready_low, delayed_low: lower bounds of the keys in these orders, as 16 big-endian bytes: a read need not
            start before them, and so does not cross the tombstones of everything done.
    """

    number: int
    name: str
    state: ProjectState = "running"
    overrides: dict[str, Setting] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    totals: Totals = field(default_factory=Totals)
    bucket_level: float = 0.0
    bucket_at: float = 0.0
    ready_low: bytes = bytes(16)
    delayed_low: bytes = bytes(16)


class SessionRecord(Struct, array_like=True):
    """A session as the store keeps it: when (unix seconds) it was last heard, to within a minute."""

    session: str
    heard_at: float


class KeptOutcome(NamedTuple):
    """The answer to request ``n`` of a session; replaces the one of n - OUTCOME_WINDOW in its slot."""

    session: str
    n: int
    reply: AnyReply


class Kept(Struct):
    """Everything that one turn changed: one atomic batch.

    The values are the core's own; read them before the next step.

    Attributes:
        moves: changes of tasks, each task once.
        errors: last error of a task, by its SpecRef; kept beside its spec.
        projects: records that changed.
        dropped_projects: numbers of projects of which everything is to go, their records too.
        outcomes, sessions, dropped_sessions: for repeats of requests.
        next_project: the number for the next new project, if it changed.
    """

    moves: list[Move] = field(default_factory=list)
    errors: dict[SpecRef, str] = field(default_factory=dict)
    projects: list[ProjectRecord] = field(default_factory=list)
    dropped_projects: list[int] = field(default_factory=list)
    outcomes: list[KeptOutcome] = field(default_factory=list)
    sessions: list[SessionRecord] = field(default_factory=list)
    dropped_sessions: list[str] = field(default_factory=list)
    next_project: int | None = None


OUTCOME_WINDOW = 64
"""Outcomes kept per session: a client has at most this many requests unanswered."""


class Loaded(Struct):
    """What the store tells at start: everything small, nothing that grows with the number of tasks.

    Attributes:
        epoch: this start's; greater than that of every start before.
        same_boot: the machine has not been booted since something was last kept, so boot-clock times still hold. If
            not, the core rewrites them all in its first turn, in one batch, after which they do.
        clean: the last scheduler said that it stopped; if not, and not same_boot, buckets start empty.
        leased: tasks that are processing, with their leases, without specs.
        next_project: the number for the next new project.
    """

    epoch: int
    same_boot: bool
    clean: bool
    projects: list[ProjectRecord]
    leased: list[Task]
    sessions: list[SessionRecord]
    next_project: int
