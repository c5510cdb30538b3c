"""What the core asks of the store and what it gives the store to keep: values without methods.

    needs(now, heard) ──► Needs ──► store: look up ──► Found ──► step(now, heard, found) ──► Kept ──► store: write
                                                          load at start: Loaded

What was found is as old as the look-up; the turn's own changes are laid over it by the core, so that a ``done`` and
a ``new-task`` of one task in one turn see each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct, field

from taskqueue.core.choices import Resolution
from taskqueue.core.counters import CountersRecord
from taskqueue.core.failure import FailuresRef, FoundFailures, KeptFailure
from taskqueue.core.history import DroppedSlices, KeptPoint, KeptSlice, LoadedSlices, PointsRef, Row
from taskqueue.core.listed import FoundList, ListRef
from taskqueue.core.log_ref import LogRef
from taskqueue.core.messages import Setting
from taskqueue.core.replies import AnyReply
from taskqueue.core.task import Move, Spec, Task
from taskqueue.core.task_refs import LeaseAnswer as LeaseAnswer
from taskqueue.core.task_refs import SpecRef as SpecRef
from taskqueue.core.task_refs import TaskRef as TaskRef
from taskqueue.core.views import Attempt, Counts, LogEntry, OperationView, ProjectState, Totals


class OrderRef(NamedTuple):
    """The next entries of an order: at most ``limit`` tasks of ``state`` with keys of at least ``start``.

    The read also ends when the urls and bodies read come to ``limit_bytes``, but not before the first task.
    """

    project: int
    state: int
    start: int
    limit: int
    limit_bytes: int


class OldRef(NamedTuple):
    """What is old in a project: at most ``limit`` tasks that are over as ``state``, with keys from ``start`` to below
    ``end``."""

    project: int
    state: int
    start: int
    end: int
    limit: int


class Old(NamedTuple):
    """A task that is over, without its spec, and how many of the first slots of its history may be filled."""

    task: Task
    slots: int


class PageRef(NamedTuple):
    """Known tasks of a project in the order of their taskids, from the first one after ``after``.

    Attributes:
        limit: at most so many.
        whole: with their specs; fewer if these are large.
        errors: with the errors of their last attempts.
    """

    project: int
    after: str
    limit: int
    whole: bool
    errors: bool


class Needs(Struct):
    """What the core wants looked up before it decides.

    Attributes:
        tasks: by taskid, without their specs.
        whole: by taskid, with their specs.
        answered: by taskid, with their specs if their tokens are those that are said.
        specs, later: of hollow tasks in memory; of ``later`` as many as are not too large together.
        orders: the next entries of orders that ran low.
        sessions: whose kept outcomes are wanted.
        histories: tasks whose last attempts are wanted.
        lists: parts of orders to be shown to people.
        pages: parts of all that is known of a project, for operations.
        old: what may have been over for too long.
        failures, old_failures: failed attempts, to be counted and to be dropped.
        log, points: parts of the log, and of the history of events.
    """

    tasks: list[TaskRef] = field(default_factory=list)
    whole: list[TaskRef] = field(default_factory=list)
    answered: list[LeaseAnswer] = field(default_factory=list)
    specs: list[SpecRef] = field(default_factory=list)
    later: list[SpecRef] = field(default_factory=list)
    orders: list[OrderRef] = field(default_factory=list)
    sessions: list[str] = field(default_factory=list)
    histories: list[TaskRef] = field(default_factory=list)
    lists: list[ListRef] = field(default_factory=list)
    pages: list[PageRef] = field(default_factory=list)
    old: list[OldRef] = field(default_factory=list)
    failures: list[FailuresRef] = field(default_factory=list)
    old_failures: list[FailuresRef] = field(default_factory=list)
    log: list[LogRef] = field(default_factory=list)
    points: list[PointsRef] = field(default_factory=list)


class FoundOrder(Struct):
    """Answer to an OrderRef.

    Attributes:
        tasks: with specs, in the order of their keys; their kept_state and kept_key say where they are.
        end: there are no further entries in the order.
    """

    ref: OrderRef
    tasks: list[Task]
    end: bool


class FoundPage(Struct):
    """Answer to a PageRef.

    Attributes:
        tasks: as the store has them; what is in memory may know better.
        errors: by taskid, of those that have one.
        end: there are no further ones.
    """

    ref: PageRef
    tasks: list[Task]
    errors: dict[str, str]
    end: bool


class FoundOld(Struct):
    """Answer to an OldRef.

    Attributes:
        tasks: in the order of their keys.
        next: key of the first task in the order after these; None: there are no further ones.
    """

    ref: OldRef
    tasks: list[Old]
    next: int | None


class Found(Struct):
    """What was looked up. What the store doesn't know is not in the maps.

    Attributes:
        tasks: answers ``Needs.tasks``, ``whole`` and ``answered``, by TaskRef. Of a task that is processing it is older
            than its lease, which is in memory.
        later: of ``Needs.later``, those that are among ``specs``.
        sessions: outcomes by request number; empty for a session that the store doesn't know.
        histories: last attempts, by their slots.
        lists, pages, old, failures, old_failures: in the order in which they were asked for.
        log: entries by number.
        points: by session and n, in the order of their times; None: nothing happened.
    """

    tasks: dict[tuple[int, str], Task] = field(default_factory=dict)
    specs: dict[SpecRef, Spec] = field(default_factory=dict)
    later: list[SpecRef] = field(default_factory=list)
    orders: list[FoundOrder] = field(default_factory=list)
    sessions: dict[str, dict[int, AnyReply]] = field(default_factory=dict)
    histories: dict[TaskRef, dict[int, Attempt]] = field(default_factory=dict)
    lists: list[FoundList] = field(default_factory=list)
    pages: list[FoundPage] = field(default_factory=list)
    old: list[FoundOld] = field(default_factory=list)
    failures: list[FoundFailures] = field(default_factory=list)
    old_failures: list[FoundFailures] = field(default_factory=list)
    log: dict[int, LogEntry] = field(default_factory=dict)
    points: dict[tuple[str, int], tuple[PointsRef, list[Row | None]]] = field(default_factory=dict)


class PauseRecord(Struct, array_like=True):
    """How a project's automatic pause stands; see ``pause``.

    Attributes:
        failures: in a row, since the last success.
        check_at: unix seconds of the next check; 0: it has not paused itself.
        phase: number of the check phase; each has its own, so that checks of an earlier one don't count.
        failed_checks: in this phase.
        reason: for people: why it paused itself.
        neutral_checks: in this phase, that were neither success nor failure.
    """

    failures: int = 0
    check_at: float = 0.0
    phase: int = 0
    failed_checks: int = 0
    reason: str = ""
    neutral_checks: int = 0


class CronRecord(Struct, array_like=True):
    """How a cron job stands.

    Attributes:
        last_at: unix seconds of the last tick that was heeded (run or skipped), or when the job was first seen.
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
    pause: PauseRecord = field(default_factory=PauseRecord)
    cleared: int = 0
    unfinished: int = 0
    armed: bool = False
    finished: int = 0
    holds: dict[str, float] = field(default_factory=dict)
    cron: dict[str, CronRecord] = field(default_factory=dict)
    swept_to: str = ""
    over_low: bytes = bytes(48)


class BucketRecord(Struct, array_like=True):
    """A shared bucket as the store keeps it; ``at`` on the boot clock."""

    name: str
    level: float
    at: float


class OperationRecord(Struct, array_like=True):
    """An operation as the store keeps it, with each step that it takes; the projects that it goes through lie apart.

    Attributes:
        position: how many of these it is through with.
        after: taskid up to which it has gone through the next one.
        bound: seq of the newest task that it is about; later ones are not met.
        name, address: of who began it.
        told: of ``matched``, what the log has already.
    """

    view: OperationView
    bound: int
    position: int = 0
    after: str = ""
    name: str = ""
    address: str = ""
    told: int = 0


class SessionRecord(Struct, array_like=True):
    """A session as the store keeps it: when (unix seconds) it was last heard, to within a minute."""

    session: str
    heard_at: float


class DroppedSession(NamedTuple):
    """A session of which nothing is to be left; ``slots`` are those of its outcomes that may be filled."""

    session: str
    slots: Sequence[int]


class KeptOutcome(NamedTuple):
    """The answer to request ``n`` of a session; replaces the one of n - OUTCOME_WINDOW in its slot."""

    session: str
    n: int
    reply: AnyReply


class KeptAttempt(NamedTuple):
    """An attempt that ended, for slot ``slot`` of the task's history."""

    project: int
    taskid: str
    slot: int
    attempt: Attempt


class Kept(Struct):
    """Everything that one turn changed: one atomic batch.

    The values are the core's own; read them before the next step.

    Attributes:
        moves: changes of tasks, each task once.
        attempts: that ended.
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
        failures_from: earlier failures, those with smaller keys, are to go.
        log: new entries; each replaces the one of its number - LOG_MOST.
    """

    moves: list[Move] = field(default_factory=list)
    attempts: list[KeptAttempt] = field(default_factory=list)
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
    log: list[LogEntry] = field(default_factory=list)
    points: list[KeptPoint] = field(default_factory=list)
    slices: list[KeptSlice] = field(default_factory=list)
    dropped_slices: list[DroppedSlices] = field(default_factory=list)


OUTCOME_WINDOW = 64
"""Outcomes kept per session: a client has at most this many requests unanswered."""


class Loaded(Struct):
    """What the store tells at start: everything small, nothing that grows with the number of tasks.

    Attributes:
        epoch: this start's; greater than that of every start before.
        same_boot: the machine has not been booted since something was last kept, so boot-clock times still hold. If
            not, the core rewrites them all in its first turn, in one batch, after which they do.
        clean: the last scheduler said that it stopped; if not, and not same_boot, buckets start empty.
        secret: the store's own: see ``pseudonyms``.
        leased: tasks that are processing, with their leases, without specs.
        next_project: the number for the next new project.
        next_log: the number for the next entry of the log.
        members: see ``Kept``; of operations that have not ended.
        first_failure, last_failure: keys of them; 0: there is none.
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
