"""Messages of the scheduler, replies and ``select``, as values without methods. Field types: ``fields``."""

from __future__ import annotations

from typing import Literal

from msgspec import Raw, Struct

from taskqueue.protocol.children_messages import TaskChildrenReply as TaskChildrenReply
from taskqueue.protocol.choices import KnownState, NewOutcome, WhyCause
from taskqueue.protocol.daemon_messages import DaemonHistoryReply as DaemonHistoryReply
from taskqueue.protocol.daemon_messages import DaemonReply as DaemonReply
from taskqueue.protocol.fields import NIL, Peer, Schedule, Setting
from taskqueue.protocol.handouts import HelloWanted as HelloWanted
from taskqueue.protocol.handouts import Select as Select
from taskqueue.protocol.reply import Reply as Reply
from taskqueue.protocol.slot_views import SlotView
from taskqueue.protocol.views import (
    Attempt,
    Counts,
    FailureGroup,
    FetcherView,
    FlowTaskView,
    FlowView,
    LogEntry,
    OperationView,
    ParentView,
    Point,
    ProjectStats,
    ProjectView,
    Remaining,
    TaskRow,
    Totals,
)
from taskqueue.protocol.watch_views import WatchReply as WatchReply

DoneOutcome = Literal["done", "kept", "stale", "rejected"]


class ItemError(Struct, frozen=True, omit_defaults=True, gc=False):
    """Why item ``index`` of a batch was rejected; for a follow-up, ``parent`` is the index of its report.

    Attributes:
        code: slot-full: its slot has had as many tasks as it may; empty: any other reason.
    """

    index: int
    reason: str
    parent: int | None = None
    code: str = ""


class Welcome(Reply, tag="welcome"):
    """Answers ``hello``. A fetcher silent for ``fetcher_timeout`` seconds gives back what it holds.

    Attributes:
        epoch: grows each time the scheduler starts.
        max_message: bytes of the longest message it takes.
        version: of the daemon's software.
        ended: tokens among the hello's ``holds`` whose leases are not in force.
        draining: it gets no new tasks: it is to finish what it has begun and to hand back the rest.
    """

    epoch: int
    fetcher_timeout: float
    max_message: int
    version: str = ""
    ended: list[int] = []
    draining: bool = False


class NewTasksReply(Reply, tag="new-task-reply", omit_defaults=True):
    """The outcome of each task, in order.

    Attributes:
        states: of each task, in order, as it was known before; empty: they were not asked for.
    """

    outcomes: list[NewOutcome]
    errors: list[ItemError] = []
    states: list[KnownState] = []


class DoneReply(Reply, tag="done-reply", omit_defaults=True):
    """Whether each report counted, in order; and the outcomes of follow-ups.

    Attributes:
        new: one list per report, in order; empty when no report had follow-ups.
    """

    outcomes: list[DoneOutcome]
    new: list[list[NewOutcome]] = []
    errors: list[ItemError] = []


class TokensReply(Reply, tag="tokens-reply"):
    """Answers ``extend`` and ``release``: how many of the leases were in force, so that it counted."""

    counted: int
    stale: list[int] = []


class StatusReply(Reply, tag="status-reply"):
    """The daemon's status.

    Attributes:
        projects: a page of them.
        more: there are projects after the last one of this page.
        found: number of projects on all pages together.
        numbers: by what each project of the page is sorted, in order; empty: by name.
        counts: over all projects.
        shell: counters of the process around the core (turns, messages, bytes, malformed, …).
        compiled: the core is compiled; else it is interpreted.
    """

    epoch: int
    version: str
    uptime_seconds: float
    counts: Counts
    totals: Totals
    projects: list[ProjectView]
    more: bool
    fetchers: list[FetcherView]
    shell: dict[str, float] = {}
    found: int = 0
    numbers: list[int] = []
    compiled: bool = False


class FetchersReply(Reply, tag="fetchers-reply"):
    """Answers ``fetchers``: a page.

    Attributes:
        more: there are fetchers after the last one of this page.
        found: fetchers that all pages together have; ``capacity``, ``holds``, ``hung`` and ``beyond`` are theirs in
            all.
        away: names that are drained and that nobody has now, the first AWAY_SHOWN of them.
        hung: places held by handlers whose leases are over.
    """

    fetchers: list[FetcherView]
    more: bool
    found: int
    capacity: int
    holds: int
    away: list[str] = []
    hung: int = 0
    beyond: int = 0


class FetcherReply(Reply, tag="fetcher-reply"):
    """Answers ``fetcher-show`` and ``fetcher-do``.

    Attributes:
        fetcher: the name that was asked for.
        draining: it is drained.
        found: fetchers that have it now; ``capacity``, ``holds``, ``hung`` and ``beyond`` are theirs in all.
        fetchers: the first of them, by pseudonym; of ``fetcher-do`` none.
        hung: places held by handlers whose leases are over.
    """

    fetcher: str
    draining: bool
    found: int
    capacity: int
    holds: int
    fetchers: list[FetcherView] = []
    hung: int = 0
    beyond: int = 0


class StatsReply(Reply, tag="stats-reply"):
    """Answers ``stats``: a page; ``more``: there are projects after the last one of it."""

    projects: list[ProjectStats]
    more: bool


class HistoryReply(Reply, tag="stats-history-reply"):
    """Answers ``stats-history``: a page of points by time, where anything happened; ``next`` is ``since`` for the page
    after it, 0: there is none."""

    points: list[Point]
    next: float = 0.0


class ProjectReply(Reply, tag="project-reply"):
    """Answers ``project-show``, ``-set``, ``-unset``, ``-do`` and ``-hold``; None: it has been deleted."""

    project: ProjectView | None


class WaitReply(Reply, tag="wait-reply"):
    """Answers ``project-wait``.

    Attributes:
        finished: no task is left that would have to end first.
        unfinished: how many there are.
        times: how often it has finished; more than in an earlier answer: it has in between.
        remaining: how far it is; None: a daemon does not say that is older.
    """

    finished: bool
    unfinished: int
    times: int = 0
    remaining: Remaining | None = None


class WhyReply(Reply, tag="why-reply"):
    """Answers ``why``, in one sentence for people.

    Attributes:
        cause: of a project, for programs; see ``WhyCause``.
    """

    sentence: str
    cause: WhyCause = ""


class TaskReply(Reply, tag="task-reply", omit_defaults=True):
    """Answers ``task-show``.

    Attributes:
        state: ready, delayed, processing, success, failed or cancelled.
        exetime: unix seconds: due (delayed), or 0.
        finished_at: unix seconds of the end (over), or 0.
        lease_seconds: until its lease runs out (processing).
        session, fetcher: pseudonym of the fetcher that has it, and its name, or the same if it has none (processing).
        error: of its last attempt, unless that was a success.
        depth: follow-ups between it and a task that was pushed by itself.
        history: its last attempts, the newest first; ATTEMPTS_KEPT at most.
        crashes: how often its fetcher has fallen silent while it ran, since somebody last told how it ended.
        bare_since: unix seconds since when its url, schedule, body and history are gone, because its project kept them
            for long enough; 0: they are here.
        result: of its last success, as its fetcher gave it; nil: it gave none, or the body leaves no room for it here.
        result_bytes: of it as MessagePack; 0: it gave none.
        put_off: how often in a row its fetcher has put it off by ``retry_after``; PUT_OFF_MOST: so often at least.
        pushed_at: unix seconds, whole ones, when it first came; 0: unknown, it is older than this is kept.
    """

    project: str
    taskid: str
    url: str
    state: str
    schedule: Schedule
    priority: int = 0
    exetime: float = 0.0
    retried: int = 0
    lastcrawltime: float = 0.0
    finished_at: float = 0.0
    lease_seconds: float = 0.0
    session: str = ""
    error: str = ""
    body: Raw = NIL
    depth: int = 0
    history: list[Attempt] = []
    bare_since: float = 0.0
    crashes: int = 0
    fetcher: str = ""
    result: Raw = NIL
    result_bytes: int = 0
    put_off: int = 0
    pushed_at: float = 0.0


class TaskWaitReply(Reply, tag="task-wait-reply"):
    """Answers ``task-wait``.

    Attributes:
        state: success, failed or cancelled; empty: the task is not over.
    """

    state: str


class TaskParentsReply(Reply, tag="task-parents-reply"):
    """Answers ``task-parents``: a page; ``next`` asks for the one after it, nil: there is none."""

    parents: list[ParentView]
    next: int | None = None


class TaskListReply(Reply, tag="task-list-reply"):
    """Answers ``task-list``: a page; ``next`` asks for the one after it, empty: there is none."""

    tasks: list[TaskRow]
    next: str = ""


class FailuresReply(Reply, tag="failures-reply"):
    """Answers ``failures``.

    Attributes:
        since: unix seconds from which on they were counted: as it was asked, or when the first one that is kept came.
        failures: counted in all.
        count: of groups, those included that are not here.
        groups: the largest first.
    """

    since: float
    failures: int
    count: int
    groups: list[FailureGroup]


class GroupReply(Reply, tag="group-reply"):
    """Answers ``group-set``.

    Attributes:
        projects: number of the projects that were changed.
        changed: what the log of changes says: ``rate=5 (was 20, 1)``.
    """

    projects: int
    changed: str


class OperationReply(Reply, tag="operation-reply"):
    """Answers ``bulk`` and ``operation-show``."""

    operation: OperationView


class OperationsReply(Reply, tag="operations-reply"):
    """Answers ``operation-list``."""

    operations: list[OperationView]


class FlowStaged(Reply, tag="flow-staged"):
    """Answers ``flow-stage``.

    Attributes:
        staged: tasks of the flow that are kept so far.
        errors: why none of these tasks were kept; empty: all were.
    """

    staged: int
    errors: list[ItemError] = []


class FlowReply(Reply, tag="flow-reply"):
    """Answers ``flow-submit``, ``flow-show`` and ``flow-cancel``."""

    flow: FlowView


class FlowsReply(Reply, tag="flows-reply"):
    """Answers ``flow-list``: a page; ``more``: there are flows after the last one of it."""

    flows: list[FlowView]
    more: bool


class FlowTasksReply(Reply, tag="flow-tasks-reply"):
    """Answers ``flow-tasks``: a page; ``next`` asks for the one after it, None: there is none."""

    tasks: list[FlowTaskView]
    next: int | None = None


class SlotListReply(Reply, tag="slot-list-reply"):
    """Answers ``slot-list``.

    Attributes:
        by: how the project is divided: host, domain or named.
        count: slots that were looked at, those included that are not here.
        slots: the first ones in the order that was asked for.
    """

    by: str
    count: int
    slots: list[SlotView]


class SlotReply(Reply, tag="slot-reply"):
    """Answers ``slot-show``.

    Attributes:
        chosen: what a person has set for this slot.
        sources: who says delay (or rate), burst and max_processing, as they are in force: a person, the project, or
            the pattern in its setting ``slots`` that fits.
        tasks: the next ready ones.
    """

    slot: SlotView
    chosen: dict[str, Setting]
    sources: dict[str, str]
    tasks: list[TaskRow]


class LogReply(Reply, tag="log-reply"):
    """Answers ``log``: a page, the newest first; ``next`` asks for the one after it, 0: there is none."""

    entries: list[LogEntry]
    next: int = 0


class TasksReply(Reply, tag="tasks-reply"):
    """Answers ``task-retry``, ``-cancel`` and ``-reprioritise``: per taskid, in order, what became of it.

    ``bare``: it can't be retried, because its url and its body are gone; push it with ``force_update``.
    """

    outcomes: list[Literal["done", "unknown", "ignored", "bare"]]


class VerifyReply(Reply, tag="verify-reply"):
    """What is wrong with the scheduler, in words; empty if nothing is."""

    problems: list[str]


class ErrorReply(Reply, tag="error"):
    """The request was refused; nothing of it was done.

    Attributes:
        n: of the refused request; 0 if it could not be read.
        code: for programs: malformed, version, too-large, too-old, unknown-project, setting, unavailable, …
        reason: for people, naming the field.
    """

    code: str
    reason: str


AnyReply = (
    Welcome | NewTasksReply | DoneReply | TokensReply | StatusReply | FetchersReply | FetcherReply | StatsReply
    | HistoryReply | ProjectReply | WaitReply | WhyReply | TaskReply | TaskWaitReply | TaskParentsReply | TasksReply
    | TaskListReply | FailuresReply | GroupReply | OperationReply | OperationsReply | FlowStaged | FlowReply
    | FlowsReply | FlowTasksReply | SlotListReply | SlotReply | LogReply | VerifyReply | DaemonReply | TaskChildrenReply
    | DaemonHistoryReply | WatchReply | ErrorReply
)  # fmt: skip


AnyOutgoing = AnyReply | Select | HelloWanted


class Outgoing(Struct, gc=False):
    """A message and its destination.

    Attributes:
        after_sync: it acknowledges something that the turn stores, so it must not be sent before that is synced.
        session: the receiving session; empty: unknown.
    """

    peer: Peer
    message: AnyOutgoing | Raw
    after_sync: bool = True
    session: str = ""
