"""Everything that the scheduler knows, and the few moves that all its rules share.

The rules live in the folders ``moves``, ``requests`` and ``steps``, each a set of functions over this state; what must
never come in here is a rule that only one of them needs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Final, Literal, get_args

from taskqueue.core.model.bucket import SharedBucket
from taskqueue.core.model.chance import derive
from taskqueue.core.model.cron_times import next_at
from taskqueue.core.model.daemon_minutes import DaemonMinutes
from taskqueue.core.model.failure_groups import FailureCount
from taskqueue.core.model.failure_log import FailureLog
from taskqueue.core.model.fair_queue import FairQueue
from taskqueue.core.model.flow import FlowTable
from taskqueue.core.model.growth import GrowthTable
from taskqueue.core.model.histogram import LATENESS_SECONDS, Histogram, upper_seconds
from taskqueue.core.model.history import History
from taskqueue.core.model.memory import HollowTasks, MemoryUsage
from taskqueue.core.model.needs import SpecRef
from taskqueue.core.model.now import Now
from taskqueue.core.model.operation import OperationTable
from taskqueue.core.model.pending_work import PendingWork, PropagationQueue
from taskqueue.core.model.project import GrandTotals, Project, ProjectTable
from taskqueue.core.model.records import Loaded
from taskqueue.core.model.session import NO_WISHES, Connections, HeldWelcome, Session, Wishes
from taskqueue.core.model.slot import SlotClock
from taskqueue.core.model.slot_scan import SlotScan
from taskqueue.core.model.slot_table import SlotTable
from taskqueue.core.model.task import PROCESSING, TASK_BYTES, Task
from taskqueue.core.model.timer_heap import TimerHeap
from taskqueue.core.model.waiters import TaskWaiters, Waits
from taskqueue.core.model.waiting_pushes import WaitingPushes
from taskqueue.core.model.watch_log import WatchLog
from taskqueue.protocol.fields import Boot, Token, Wall
from taskqueue.settings.environment import Environment
from taskqueue.settings.settings import CoreConfig, Layer, Pace

NO_PACE: Final = Pace(rate=0.0)
"""Pace of a shared bucket that the config no longer has: nothing is better than too much."""

EPOCH_SHIFT: Final = 44
"""number = epoch (19 bits) | n (44 bits): positive as a signed 64-bit number."""

BootOfProject = Literal["lease", "bucket", "wait", "counters", "slot"]
WallOfProject = Literal["due", "check", "resume", "hours", "project_hold", "retention"]
OfSession = Literal["silence", "forget", "fetcher_rest"]
BootKey = (
    tuple[BootOfProject, int]
    | tuple[OfSession, str]
    | tuple[Literal["shared"], str]
    | tuple[Literal["operation", "flow", "watch", "task_wait"], int]
)
"""A kind of timer of the boot clock, and the project's number, the session, the bucket or the operation it is of."""
WallKey = tuple[WallOfProject, int] | tuple[Literal["failures", "stage"], int]
"""A kind of timer of the wall clock, and the number of its project or flow; 0 for the single timer of ``failures``."""
DueAt = Callable[["State", BootKey | WallKey], float]
"""When the thing behind a key is due on its clock; inf: never, or it is no more. What ``timers`` says."""

BOOT_OF_PROJECT: Final[tuple[BootOfProject, ...]] = get_args(BootOfProject)
WALL_OF_PROJECT: Final[tuple[WallOfProject, ...]] = get_args(WallOfProject)
OF_SESSION: Final[tuple[OfSession, ...]] = get_args(OfSession)


class State:
    """What outlives a turn. What lives for one is in ``turn_state``.

    Attributes:
        secret: the key of the pseudonyms of sessions, and of the masks of their tokens.
        sessions: by id, the one that was silent for longest first.
        memory: how much memory the tasks of all projects take.
        held_welcomes: answers to hellos that come after the hand-out, by session.
        silent: sessions that have fallen silent, and hold tasks still of which the specs are being read.
        cron_timers: when which project's next cron job is due.
        last_now: the time of the turn before.
        in_turn: a turn has begun that has not been decided.
        left_undone: the turn before left something undone because it was long enough.
        shared: buckets that several projects share, by name.
        next_log: number of the next entry of the log.
        history: what happened lately, to be written by the minute.
        daemon_minutes: how the daemon was in each minute of the last day.
        attempt_seconds: how long attempts took that ended in this epoch, by the bins of ``histogram``.
        lateness_seconds: how late, on the wall clock, delayed tasks became ready and cron jobs ran in this epoch.
        failures: which failed attempts the store has.
        failure_counts: requests for them that are under way, by session and number, in the order of their turns.
        slot_scans: requests for all slots of a project that are under way, likewise.
        waits: requests that are to be answered later.
        task_waiters: those that wait for the end of a task.
        drained: names of fetchers that get no new tasks, in the order in which they were drained.
        propagations: what is to be told along the edges of tasks.
        waiting_pushes: pushes that wait until it is known whether they close a cycle.
        flows: all of them.
        slot_clock: the time of the turn, for slots.
        divided: slots of the projects that have some, by their numbers.
        growth: whether slots get new tasks without end.
        watch_log: what has changed, for those who watch; None: nobody does.
    """

    def __init__(self, loaded: Loaded, config: CoreConfig, environment: Environment, due_at: DueAt) -> None:
        self.config = config
        self.environment = environment
        self.epoch = loaded.epoch
        self.secret = loaded.secret
        self.fair_queue = FairQueue()
        self.wishes = Wishes()
        self.connections = Connections()
        self.projects = ProjectTable(loaded.next_project)
        self.grand_totals = GrandTotals()
        self.next_log = loaded.next_log
        self.history = History(loaded.history)
        self.daemon_minutes = DaemonMinutes(loaded.daemon_minutes)
        self.attempt_seconds = Histogram(upper_seconds())
        self.lateness_seconds = Histogram(LATENESS_SECONDS)
        self.sessions: OrderedDict[str, Session] = OrderedDict()
        self.boot_timers: TimerHeap[BootKey] = TimerHeap(partial(due_at, self))
        self.wall_timers: TimerHeap[WallKey] = TimerHeap(partial(due_at, self))
        self.memory = MemoryUsage()
        self.hollow = HollowTasks()
        self.held_welcomes: dict[str, HeldWelcome] = {}
        self.silent: dict[str, Session] = {}
        self.cron_timers: TimerHeap[int] = TimerHeap(self._cron_due_at)
        self.last_now = Now(Wall(0.0), Boot(0.0))
        self.in_turn = False
        self.left_undone = True
        self.pending = PendingWork()
        self.shared: dict[str, SharedBucket] = {}
        self.operations = OperationTable()
        self.failures = FailureLog(loaded.first_failure, loaded.last_failure)
        self.failure_counts: OrderedDict[tuple[str, int], FailureCount] = OrderedDict()
        self.slot_scans: OrderedDict[tuple[str, int], SlotScan] = OrderedDict()
        self.waits = Waits()
        self.drained = dict.fromkeys(loaded.drained)
        self.waiting_pushes = WaitingPushes()
        self.propagations = PropagationQueue(loaded.first_propagation, loaded.last_propagation)
        self.flows = FlowTable(loaded.next_flow, loaded.flows)
        self.slot_clock = SlotClock()
        self.divided: dict[int, SlotTable] = {}
        self.growth = GrowthTable()
        self.watch_log: WatchLog | None = None
        self.task_waiters = TaskWaiters()
        self._n = Token(loaded.epoch << EPOCH_SHIFT)

    # ------------------------------------------------------------------------------------ numbers, projects

    def next_number(self) -> Token:
        """The next number: a seq, an id, or one to make a token of. Grows, across restarts too."""
        self._n += 1  # type: ignore[assignment]  # wrapping it again would cost a call in each task's life
        return self._n

    def lease_number(self, task: Task) -> int:
        """The number in the token of the task's lease: of two leases the later one has the larger.

        A token of before there were masks is a number itself.
        """
        number = task.token ^ derive(self.secret, task.lease.session).mask if task.lease is not None else 0
        return number if number >> EPOCH_SHIFT <= self.epoch else task.token

    def plan_cron(self, project: Project) -> None:
        """The project's cron jobs are planned anew; without jobs it costs no turn anything."""
        at = next_at(project)
        if at < inf:
            self.cron_timers.note(project.number, at)
            self.pending.begin("cron")

    def layers(self, name: str) -> tuple[Layer, ...]:
        """The config's layers of settings for a project."""
        return self.config.defaults, self.config.projects.get(name, {})

    # ------------------------------------------------------------------------------------ sessions

    def session(self, name: str, now: Now) -> Session:
        """The session with that id, active now; an unknown one is created."""
        session = self.sessions.get(name)
        if session is None:
            session = self.sessions[name] = Session(name, now.boot, self.secret)
            self.boot_timers.note(("forget", name), now.boot + self.config.session_timeout)
        self.sessions.move_to_end(name)
        session.heard_at = now.boot
        return session

    def dismiss(self, session: Session) -> None:
        """The session takes no tasks until its next hello."""
        self.fair_queue.dismiss(session)
        self.wishes.release(session.interest)
        session.interest = NO_WISHES

    def forget(self, session: Session) -> None:
        """Know a session, which holds nothing, no more."""
        self.dismiss(session)
        self.memory.ended_changed(-len(session.ended))
        self.connections.forget(session)
        self.waiting_pushes.forget(session.id)
        del self.sessions[session.id]
        self.silent.pop(session.id, None)
        for kind in OF_SESSION:
            self.boot_timers.drop((kind, session.id))

    # ------------------------------------------------------------------------------------ tasks

    def want_held(self, project: Project, task: Task) -> None:
        """Have the spec of a hollow task read for one of the next turns, if the task is in memory."""
        if task.taskid in project.queue.tasks:
            self.hollow.want(task)

    def release_bodies(self) -> None:
        """Release the bodies that are not to be held; if they are needed again, they are in the store."""
        for task in self.hollow.take_released():
            project = self.projects.by_number.get(task.project)
            if project is not None and not task.spec_changed and project.queue.tasks.get(task.taskid) is task:
                task.spec = None
                self.resize(project, task, TASK_BYTES)

    def resize(self, project: Project, task: Task, size: int) -> None:
        """Set the memory size of a task, which is in memory."""
        if task.state == PROCESSING:
            self.memory.leased_changed(size - task.size)
            task.size = size
        else:
            head = project.queue.head(task.state)
            head.resize(task, size)
            self.memory.note(project.number, task.state, head.bytes)

    def is_hollow(self, ref: SpecRef, task: Task) -> bool:
        """Whether the task is still in memory, still has that seq, and still lacks its spec."""
        project = self.projects.by_number.get(ref.project)
        if project is None or task.spec is not None or task.seq != ref.seq:
            return False
        return project.queue.tasks.get(task.taskid) is task

    def _cron_due_at(self, number: int) -> float:
        project = self.projects.by_number.get(number)
        return inf if project is None else next_at(project)
