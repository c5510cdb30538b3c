"""The records of the core in the store: what a turn writes, and what is loaded at start. Values without methods.

    decide(found) ──► WriteSet ──► store: write        load at start: Loaded

Records are encoded as arrays of their fields, ``OperationProgress`` and counts as maps: a new field comes last and has
a default, so that older stores can be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Raw, Struct, field

from taskqueue.core.model.attempt_records import KeptFailure
from taskqueue.core.model.daemon_minutes import DaemonMinute
from taskqueue.core.model.edges import Edge, Mark, Propagation, TaskRef
from taskqueue.core.model.history import CountersRecord, DroppedSlices, KeptPoint, KeptSlice, LoadedSlices
from taskqueue.core.model.needs import ChangeRecord, Old, SetAside
from taskqueue.core.model.rerun_set import RerunCursor, RerunWrites
from taskqueue.core.model.slot_records import DivisionRecord, SlotWrites
from taskqueue.core.model.task import STATES, Move, Task
from taskqueue.protocol.choices import ProjectState, Resolution
from taskqueue.protocol.fields import Setting
from taskqueue.protocol.values import (
    Attempt,
    EventTotals,
    NewTask,
    OperationFields,
    TaskCounts,
    TaskFilter,
)


class PauseRecord(Struct, array_like=True):
    """The state of a project's automatic pause; see ``pause``.

    Attributes:
        failures: in a row, since the last success.
        check_at: unix seconds of the next check; 0: it has not paused itself.
        phase: number of the check phase; each has its own, so that checks of an earlier one don't count.
        failed_checks: in this phase.
        reason: for people: why it paused itself.
        neutral_checks: in this phase, that were neither success nor failure.
        until: unix seconds at which the pause by a person ends; 0: it does not end by itself.
    """

    failures: int = 0
    check_at: float = 0.0
    phase: int = 0
    failed_checks: int = 0
    reason: str = ""
    neutral_checks: int = 0
    until: float = 0.0


class CronRecord(Struct, array_like=True):
    """The state of a cron job.

    Attributes:
        last_at: unix seconds at which a tick was last run or skipped, or the job first seen.
        taskid: of the task that was pushed last; empty: none yet.
    """

    last_at: float
    taskid: str = ""
    runs: int = 0
    skipped: int = 0


class ProjectRecord(Struct, array_like=True):
    """A project as the store keeps it; written in each batch that changes anything of it.

    Attributes:
        number: first part of its keys; retired, never reused, when it is deleted.
        overrides: settings said by ``project-set``, 64 KiB in all at most: see ``layer_size``.
        bucket_level: tokens at bucket_at (boot-clock seconds).
        ready_low, delayed_low: lower bounds of the keys in these orders, as 16 big-endian bytes: a read need not
            start before them, and so does not cross the tombstones of everything done.
        cleared: live tasks with a seq up to this one were dropped by ``clear``; what the store still has of them means
            nothing.
        unfinished: live tasks that the project is not finished without.
        armed: there have been some since it was last finished.
        finished: how often it has been.
        holds: until when (unix seconds) sessions hold it open.
        cron: by job.
        swept_to: taskid up to which the store has been rid of what was cleared.
        over_low: lower bounds of the keys in the orders of success, failed and cancelled, 16 big-endian bytes each.
        linked: it has had edges, which are not among what is dropped with it.
        slots: how it is divided; None: it has never been. ``ready_low`` is then one of the entries by best task.
        growing: when people were told that a slot seems to grow without end (unix seconds), by its name; of a day.
        held_back: live tasks that wait for a retry; None: not counted yet, in a store from before they were.
    """

    number: int
    name: str
    state: ProjectState = "running"
    overrides: dict[str, Setting] = field(default_factory=dict)
    counts: TaskCounts = field(default_factory=TaskCounts)
    totals: EventTotals = field(default_factory=EventTotals)
    bucket_level: float = 0.0
    bucket_at: float = 0.0
    ready_low: bytes = bytes(16)
    delayed_low: bytes = bytes(16)
    pause: PauseRecord = field(default_factory=PauseRecord)
    cleared: int = 0
    unfinished: int = 0
    armed: bool = False
    finished: int = 0
    holds: dict[str, float] = field(default_factory=dict)
    cron: dict[str, CronRecord] = field(default_factory=dict)
    swept_to: str = ""
    over_low: bytes = bytes(48)
    linked: bool = False
    slots: DivisionRecord | None = None
    growing: dict[str, float] = field(default_factory=dict)
    held_back: int | None = None


class BucketRecord(Struct, array_like=True):
    """A shared bucket, as stored; ``at`` on the boot clock."""

    name: str
    level: float
    at: float


class OperationProgress(OperationFields):
    """An operation as people see it, in the store.

    msgspec leaves out what *is* the default of a field, not what equals it. So three defaults are other objects here:
    each view that is made of a record has these fields, the record only if they are set.
    """

    ended_at: float = 0.0
    filter: TaskFilter = TaskFilter()
    until: float = 0.0


class OperationRecord(Struct, array_like=True):
    """An operation as the store keeps it, with each step that it takes; the projects that it goes through lie apart.

    Attributes:
        position: how many of these it is through with.
        after: taskid up to which it has gone through the next one.
        bound: seq of the newest task that it is about; later ones are not met.
        actor, address: who began it, and from where.
        logged: how many of ``matched`` the change log has already.
        cursor: how far a rerun has come; None: it is another action.
        changed: names of projects that it has changed, and
        tasks: number of the tasks that it changed or dropped there, since its last entry in the change log.
        detail: what that log is to say of it, such as the states that projects had when it began.
    """

    progress: OperationProgress
    bound: int
    position: int = 0
    after: str = ""
    actor: str = ""
    address: str = ""
    logged: int = 0
    cursor: RerunCursor | None = None
    changed: list[str] = []
    tasks: int = 0
    detail: str = ""


class FlowRecord(Struct, array_like=True):
    """A flow as the store keeps it, written in each batch that changes anything of it; its tasks lie apart.

    Attributes:
        project: number of its project.
        tasks: staged so far; once it is accepted, that it has.
        size: bytes of these.
        staged_at: unix seconds when the last of them arrived.
        began_at: unix seconds when it was accepted; of a stage, when its first task arrived.
        ended_at: unix seconds; 0: it has not ended.
        is_accepted: it is no stage any more.
        unrolled: tasks of it that have been made.
        new: tasks of it that were unknown when it was accepted; there is room for them.
        has_outside: some of its tasks wait for others than tasks that it brings.
        is_cancelled: what is not made yet is not made any more, and what is live is ended.
        cancelled_to: of the tasks made, those that have been gone through for that, from the last one on.
        counts: by state, of the tasks made; of one that has been forgotten, the state in which it was.
    """

    number: int
    project: int
    name: str
    tasks: int = 0
    size: int = 0
    staged_at: float = 0.0
    began_at: float = 0.0
    ended_at: float = 0.0
    is_accepted: bool = False
    unrolled: int = 0
    new: int = 0
    has_outside: bool = False
    is_cancelled: bool = False
    cancelled_to: int = 0
    counts: list[int] = field(default_factory=lambda: [0] * (len(STATES) + 1))


class StagedTask(NamedTuple):
    """A task for a flow: the flow's number, the task's index in it, the task."""

    flow: int
    place: int
    task: NewTask


class SessionRecord(Struct, array_like=True):
    """A session, as stored: unix seconds at which it was last active, to within a minute."""

    session: str
    heard_at: float


class DroppedSession(NamedTuple):
    """A session to be deleted; ``slots`` are those of its outcomes that may be filled."""

    session: str
    slots: Sequence[int]


class KeptOutcome(NamedTuple):
    """The answer to request ``n`` of a session; replaces the one of n - OUTCOME_WINDOW in its slot.

    Attributes:
        answer: the bytes that were sent, which nobody reads again: a repeat gets the same ones, even of a daemon whose
            answers have other fields by then.
    """

    session: str
    n: int
    answer: Raw


class KeptAttempt(NamedTuple):
    """An attempt that ended, for ``ring_index`` of the task's history, which is a ring."""

    project: int
    taskid: str
    ring_index: int
    attempt: Attempt


class WriteSet(Struct):
    """Everything that one turn changed: one atomic batch.

    The values are the core's own; read them before the next step.

    Attributes:
        moves: changes of tasks, each task once.
        attempts: that ended.
        results: of tasks that have succeeded, by project number and taskid; nil: this success gave none, and what the
            one before it gave is to go.
        projects, buckets, operations: records that changed.
        cleared: numbers of projects of which everything live is to go.
        counters: windows of projects, by number.
        forgotten: tasks of which nothing is to be left.
        old: tasks that are over, of which nothing is to be left, or if they are bare only what tells that they were.
        members: by the id of an operation, numbers of the projects that it goes through; empty: it has ended.
        dropped_operations: ids of those to be forgotten.
        dropped_projects: numbers of projects of which everything is to go, their records too.
        outcomes, sessions, dropped_sessions: for repeats of requests.
        next_project: the number for the next new project, if it changed.
        failures: attempts that failed.
        failures_from: failures with smaller keys are to go; 0: none.
        log: new entries; each replaces the one of its number - LOG_MOST.
        points, slices, dropped_slices: the history of events, see ``history``.
        daemon_minutes, dropped_daemon_minutes: the history of the daemon, and places of it that are to be empty.
        drained: all names of fetchers that get nothing, if they have changed.
        edges: marks of edges that are made or change; None: the edge is to go.
        new_edges: those that are made.
        linked: tasks that are over, of which only the links have changed.
        awaited: unknown tasks that somebody waits for from now on; False: nobody does any more.
        propagations: that begin or have taken a step, by number; None: it has ended.
        dropped_edges: numbers of projects of which all edges are to go.
        flows: records that changed.
        staged: tasks for flows.
        dropped_flows: numbers of those of which nothing is to be left.
        next_flow: the number for the next new flow, if it changed.
        reruns: what was found out about the sets of reruns.
        dropped_reruns: ids of reruns that have ended; nothing is left of their sets.
        slots: what changed of the slots of projects.
        set_aside: damaged places that are to leave their orders.
    """

    moves: list[Move] = field(default_factory=list)
    attempts: list[KeptAttempt] = field(default_factory=list)
    results: dict[tuple[int, str], Raw] = field(default_factory=dict)
    projects: list[ProjectRecord] = field(default_factory=list)
    dropped_projects: list[int] = field(default_factory=list)
    outcomes: list[KeptOutcome] = field(default_factory=list)
    sessions: list[SessionRecord] = field(default_factory=list)
    dropped_sessions: list[DroppedSession] = field(default_factory=list)
    next_project: int | None = None
    cleared: list[int] = field(default_factory=list)
    forgotten: list[Task] = field(default_factory=list)
    counters: dict[int, CountersRecord] = field(default_factory=dict)
    buckets: list[BucketRecord] = field(default_factory=list)
    operations: list[OperationRecord] = field(default_factory=list)
    members: dict[int, list[int]] = field(default_factory=dict)
    dropped_operations: list[int] = field(default_factory=list)
    old: list[Old] = field(default_factory=list)
    failures: list[KeptFailure] = field(default_factory=list)
    failures_from: int = 0
    log: list[ChangeRecord] = field(default_factory=list)
    points: list[KeptPoint] = field(default_factory=list)
    slices: list[KeptSlice] = field(default_factory=list)
    dropped_slices: list[DroppedSlices] = field(default_factory=list)
    daemon_minutes: list[DaemonMinute] = field(default_factory=list)
    dropped_daemon_minutes: list[int] = field(default_factory=list)
    drained: list[str] | None = None
    edges: dict[Edge, Mark | None] = field(default_factory=dict)
    new_edges: dict[Edge, None] = field(default_factory=dict)
    linked: dict[TaskRef, Task] = field(default_factory=dict)
    awaited: dict[TaskRef, bool] = field(default_factory=dict)
    propagations: dict[int, Propagation | None] = field(default_factory=dict)
    dropped_edges: list[int] = field(default_factory=list)
    flows: list[FlowRecord] = field(default_factory=list)
    staged: list[StagedTask] = field(default_factory=list)
    dropped_flows: list[int] = field(default_factory=list)
    next_flow: int | None = None
    reruns: list[RerunWrites] = field(default_factory=list)
    dropped_reruns: list[int] = field(default_factory=list)
    slots: list[SlotWrites] = field(default_factory=list)
    set_aside: list[SetAside] = field(default_factory=list)


class Loaded(Struct):
    """What the store tells at start: everything small, nothing that grows with the number of tasks.

    Attributes:
        epoch: this start's; greater than that of every start before.
        same_boot: the machine has not been booted since something was last kept, so boot-clock times still hold. If
            not, the core rewrites them all in its first turn, in one batch, after which they do.
        clean: the last scheduler said that it stopped; if not, and not same_boot, buckets start empty.
        secret: the store's own: see ``chance``.
        leased: tasks that are processing, with their leases, without specs.
        next_project: the number for the next new project.
        next_log: the number for the next entry of the log.
        members: see ``WriteSet``; of operations that have not ended.
        first_failure, last_failure: keys of them; 0: there is none.
        drained: names of fetchers that get nothing.
        first_propagation, last_propagation: numbers of them; 0: there is none.
        next_flow: the number for the next new flow.
        set_aside: damaged places of tasks that were processing.
    """

    epoch: int
    same_boot: bool
    clean: bool
    secret: bytes
    projects: list[ProjectRecord]
    leased: list[Task]
    sessions: list[SessionRecord]
    next_project: int
    counters: dict[int, CountersRecord] = field(default_factory=dict)
    buckets: list[BucketRecord] = field(default_factory=list)
    operations: list[OperationRecord] = field(default_factory=list)
    members: dict[int, list[int]] = field(default_factory=dict)
    first_failure: int = 0
    last_failure: int = 0
    next_log: int = 1
    history: dict[Resolution, LoadedSlices] = field(default_factory=dict)
    daemon_minutes: list[DaemonMinute] = field(default_factory=list)
    drained: list[str] = field(default_factory=list)
    first_propagation: int = 0
    last_propagation: int = 0
    flows: list[FlowRecord] = field(default_factory=list)
    next_flow: int = 1
    set_aside: list[SetAside] = field(default_factory=list)
