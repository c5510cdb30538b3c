"""Records of the core in the store: writes of a turn, and everything loaded at start. Values without methods.

    decide(found) ──► WriteSet ──► store: write        load at start: Loaded

Records are encoded as arrays of their fields, ``OperationProgress`` and counts as maps: a new field comes last and has
a default, so that older stores can be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec import Raw, Struct, field

from taskqueue.core.model.attempt_records import KeptFailure
from taskqueue.core.model.daemon_minutes import DaemonMinute
from taskqueue.core.model.edges import Edge, Mark, Propagation, TaskRef
from taskqueue.core.model.history import CountersRecord, DroppedSlices, KeptPoint, KeptSlice, LoadedSlices
from taskqueue.core.model.needs import ChangeRecord, Old, SetAside
from taskqueue.core.model.rerun_set import RerunCursor, RerunWrites
from taskqueue.core.model.slot_records import DivisionRecord, SlotWrites
from taskqueue.core.model.task import STATES, Move, Task
from taskqueue.core.model.undo_rows import UndoCursor, UndoRows, UndoWrites
from taskqueue.protocol.choices import ProjectState, Resolution
from taskqueue.protocol.fields import Setting
from taskqueue.protocol.values import (
    Attempt,
    CronRecord,
    EventTotals,
    NewTask,
    OperationFields,
    PauseRecord,
    TaskCounts,
    TaskFilter,
)

REASON_CHARS: Final = 300
"""Characters of the reason for a pause, which quotes the last error, at most."""

TICKS_MOST: Final = 10
"""Flows of a cron entry that run at once, and ticks of an entry that wait, at most."""


class ImportRecord(Struct, array_like=True):
    """Import of a project that is not whole yet.

    Attributes:
        export: text that identifies the export.
        parts: number of its parts.
        first_seq: first of the seqs of its tasks; see ``seq_for``.
        newest: True if ready tasks come with the newest of each priority first.
        state, pause: those of the project once it is whole.
        brought: number of parts that are there.
        last_points: unix seconds of the last point of the history, by what it counts.
    """

    export: str
    parts: int
    first_seq: int
    newest: bool
    state: ProjectState
    pause: PauseRecord
    brought: int = 0
    last_points: dict[Resolution, int] = field(default_factory=dict)


class ProjectRecord(Struct, array_like=True):
    """Project as stored; written in each batch that changes anything of it.

    Attributes:
        number: first part of its keys; retired, never reused, when the project is deleted.
        overrides: settings set by ``project-set``, 64 KiB in all at most: see ``layer_size``.
        bucket_level: tokens at bucket_at (boot-clock seconds).
        ready_low, delayed_low: lower bounds of the keys in these orders, as 16 big-endian bytes: a read need not
            start before them, and so does not cross the tombstones of everything done.
        cleared: seq up to which ``clear`` has dropped live tasks; stored ones up to it no longer count.
        unfinished: live tasks that keep the project from being finished.
        armed: True if there have been unfinished tasks since it was last finished.
        finished: number of times that it was finished.
        holds: unix seconds until which each session keeps it open.
        cron: cron entries by name.
        swept_to: taskid up to which cleared tasks have been removed from the store.
        over_low: lower bounds of the keys in the orders of success, failed and cancelled, 16 big-endian bytes each.
        linked: True if it has had edges, which are not among what is dropped with it.
        slots: its division; None if it has never had one. ``ready_low`` is then a bound of the entries by best task.
        growing: unix seconds of the last event about a slot that seems to grow without end, by slot name, of a day.
        held_back: live tasks that wait for a retry; None if not counted yet, in a store from before they were.
        newest: True if ready tasks lie by newest; None while they are still to be sorted anew.
        importing: its unfinished import; None if it is whole.
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
    newest: bool | None = False
    importing: ImportRecord | None = None


class BucketRecord(Struct, array_like=True):
    """Shared bucket, as stored; ``at`` is on the boot clock."""

    name: str
    level: float
    at: float


class OperationProgress(OperationFields):
    """Operation as replies show it, in the store.

    msgspec omits a value that *is* the default of a field, not one that equals it. So three defaults are other objects
    here: a view made of a record always has these fields, the record only if they are set.
    """

    ended_at: float = 0.0
    filter: TaskFilter = TaskFilter()
    until: float = 0.0


class OperationRecord(Struct, array_like=True):
    """Operation as stored with each of its steps; the projects that it goes through are stored apart.

    Attributes:
        position: number of projects that it has finished.
        after: taskid up to which it has gone through the present project.
        bound: seq of the newest task that it covers.
        actor, address: author of the operation, and where it came from.
        logged: part of ``matched`` that ``taskqueue log`` has already.
        cursor: progress of a rerun; None for other actions.
        changed: names of projects that it has changed since its last entry in ``taskqueue log``.
        tasks: number of tasks that it has changed or dropped since that entry.
        detail: text for that entry, such as the states that projects had when it began.
        patterns: globs of the projects that its author reaches, beyond which it never goes; empty: all.
        rows: its rows, for an undo; None if there are none, or no more.
        undo: operation that it undoes; None for other actions.
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
    patterns: tuple[str, ...] = ()
    rows: UndoRows | None = None
    undo: UndoCursor | None = None


class FlowRecord(Struct, array_like=True):
    """Flow as stored, written in each batch that changes anything of it; its tasks are stored apart.

    Attributes:
        project: number of its project.
        tasks: number of tasks staged so far; after acceptance, of all its tasks.
        size: bytes of these tasks.
        staged_at: unix seconds when the last of them arrived.
        began_at: unix seconds when it was accepted; for a stage, when its first task arrived.
        ended_at: unix seconds of its end; 0 until then.
        is_accepted: True once it has left the stage.
        unrolled: number of tasks that have been made.
        new: number of tasks that were unknown when it was accepted; room is reserved for them.
        has_outside: True if some of its tasks wait for tasks that it does not bring.
        is_cancelled: True if tasks that are not made yet are never made, and live ones are cancelled.
        cancelled_to: number of made tasks that this has gone through, from the last one on.
        counts: made tasks by state; a forgotten task counts in its last state, one that was dropped at index 0.
        cron: name of the cron entry that has submitted it; empty if a client has.
        tick: unix seconds of that entry's tick.
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
    cron: str = ""
    tick: float = 0.0


class StagedTask(NamedTuple):
    """Task staged for a flow: number of the flow, index in it, and the task."""

    flow: int
    place: int
    task: NewTask


class SessionRecord(Struct, array_like=True):
    """Session, as stored.

    Attributes:
        heard_at: unix seconds at which it was last active, to within a minute.
        owner: owner of the key that spoke in it first; empty if none has.
    """

    session: str
    heard_at: float
    owner: str = ""


class DroppedSession(NamedTuple):
    """Session to be deleted; ``slots`` are those of its outcomes that may be filled."""

    session: str
    slots: Sequence[int]


class KeptOutcome(NamedTuple):
    """Answer to request ``n`` of a session; replaces the one of n - OUTCOME_WINDOW in its ring.

    Attributes:
        answer: the bytes that were sent. They are never decoded: a repeat gets the same ones, even from a daemon whose
            answers have other fields by then.
    """

    session: str
    n: int
    answer: Raw


class KeptAttempt(NamedTuple):
    """Ended attempt, for ``ring_index`` of the task's history, which is a ring."""

    project: int
    taskid: str
    ring_index: int
    attempt: Attempt


class WriteSet(Struct):
    """All changes of one turn: one atomic batch.

    The values are the core's own; read them before the next turn.

    Attributes:
        moves: changes of tasks, each task once.
        attempts: ended attempts.
        results: results of tasks that have succeeded, by project number and taskid; nil if this success gave none, to
            delete the one before.
        projects, buckets, operations: changed records.
        cleared: numbers of projects whose live tasks are to be deleted.
        counters: windows of projects, by number.
        forgotten: tasks to be deleted.
        old: finished tasks to be deleted; bare ones leave only the record that they were.
        members: numbers of the projects that an operation goes through, by its id; empty if it has ended.
        dropped_operations: ids of operations to be deleted.
        dropped_projects: numbers of projects to be deleted with everything of them.
        outcomes, sessions, dropped_sessions: records for repeats of requests.
        next_project: number for the next new project, if it changed.
        failures: failed attempts.
        failures_from: key below which failures are to be deleted; 0 for none.
        log: new entries of ``taskqueue log``; each replaces the one of its number - LOG_MOST.
        points, slices, dropped_slices: history of events, see ``history``.
        daemon_minutes, dropped_daemon_minutes: history of the daemon, and places of it to be emptied.
        drained: all names of drained fetchers, if they have changed.
        edges: marks of new or changed edges; None to delete the edge.
        new_edges: new edges.
        linked: finished tasks of which only the links have changed.
        awaited: True for unknown tasks that are awaited from now on, False for those that no longer are.
        propagations: propagations that begin or have taken a step, by number; None if it has ended.
        dropped_edges: numbers of projects whose edges are to be deleted.
        flows: changed records.
        staged: tasks for flows.
        dropped_flows: numbers of flows to be deleted.
        next_flow: number for the next new flow, if it changed.
        reruns: findings about the sets of reruns.
        dropped_reruns: ids of ended reruns, whose sets are to be deleted.
        undo_pages: rows of the steps of operations.
        dropped_rows: ids of operations whose rows are to be deleted.
        slots: changes of the slots of projects.
        set_aside: damaged places to be taken out of their orders.
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
    undo_pages: list[UndoWrites] = field(default_factory=list)
    dropped_rows: list[int] = field(default_factory=list)
    slots: list[SlotWrites] = field(default_factory=list)
    set_aside: list[SetAside] = field(default_factory=list)


class Loaded(Struct):
    """Records that the store gives at start: all small ones, none whose number grows with that of tasks.

    Attributes:
        epoch: epoch of this start; greater than that of every start before.
        same_boot: True if the machine has not been booted since the last write, so that boot-clock times still hold.
            If not, the core rewrites them all in its first turn, in one batch, after which they do.
        clean: True if the last scheduler recorded that it stopped; if neither clean nor same_boot, buckets start empty.
        secret: secret of the store: see ``hashes``.
        leased: processing tasks with their leases, without specs.
        next_project: number for the next new project.
        next_log: number for the next entry of ``taskqueue log``.
        members: see ``WriteSet``; of operations that have not ended.
        first_failure, last_failure: keys of the first and last failure; 0 if there is none.
        drained: names of drained fetchers.
        first_propagation, last_propagation: numbers of the first and last propagation; 0 if there is none.
        next_flow: number for the next new flow.
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
