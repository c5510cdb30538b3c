"""State of the scheduler, and the few moves that all its rules share.

The rules live in the folders ``moves``, ``requests`` and ``steps``, as functions over this state. A rule that only
one of them needs must not come in here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Final, Literal, get_args

from taskqueue.core.model.bucket import SharedBucket
from taskqueue.core.model.cron_times import next_at
from taskqueue.core.model.daemon_minutes import DaemonMinutes
from taskqueue.core.model.failure_groups import FailureCount
from taskqueue.core.model.failure_log import FailureLog
from taskqueue.core.model.fair_queue import FairQueue
from taskqueue.core.model.flow import FlowTable
from taskqueue.core.model.hashes import derive
from taskqueue.core.model.histogram import LATENESS_SECONDS, Histogram, upper_seconds
from taskqueue.core.model.history import History
from taskqueue.core.model.memory import HollowTasks, MemoryUsage
from taskqueue.core.model.needs import SpecRef
from taskqueue.core.model.now import Now
from taskqueue.core.model.operation import OperationTable
from taskqueue.core.model.pending_work import PendingWork, PropagationQueue
from taskqueue.core.model.project import GrandTotals, Project, ProjectTable
from taskqueue.core.model.records import Loaded
from taskqueue.core.model.session import NO_WISHES, Connections, HeldWelcome, OwnedSessions, Session, Wishes
from taskqueue.core.model.slot import SlotClock
from taskqueue.core.model.slot_scan import SlotScan
from taskqueue.core.model.slot_table import SlotTable
from taskqueue.core.model.task import PROCESSING, TASK_BYTES, Task
from taskqueue.core.model.timer_heap import TimerHeap
from taskqueue.core.model.traps import TrapTable
from taskqueue.core.model.waiters import TaskWaiters, Waits
from taskqueue.core.model.waiting_pushes import WaitingPushes
from taskqueue.core.model.watch_log import WatchLog
from taskqueue.protocol.fields import Boot, Token, Wall
from taskqueue.settings.environment import Environment
from taskqueue.settings.settings import CoreConfig, Layer, Pace

NO_PACE: Final = Pace(rate=0.0)
"""Pace of a shared bucket that the config no longer has: dispatching nothing is safer than too much."""

EPOCH_SHIFT: Final = 44
"""Bits of n in a number = epoch (19 bits) | n (44 bits), which is positive as a signed 64-bit number."""

BootOfProject = Literal["lease", "bucket", "wait", "counters", "slot"]
WallOfProject = Literal["due", "check", "resume", "hours", "project_hold", "retention"]
OfSession = Literal["silence", "forget", "fetcher_rest"]
BootKey = (
    tuple[BootOfProject, int]
    | tuple[OfSession, str]
    | tuple[Literal["shared"], str]
    | tuple[Literal["operation", "flow", "watch", "task_wait"], int]
)
"""Key of a boot-clock timer: its kind, and the number of its project or operation, its session or its bucket."""
WallKey = tuple[WallOfProject, int] | tuple[Literal["failures", "stage", "undo"], int]
"""Key of a wall-clock timer: its kind, and the number of its project, flow or operation; 0 for that of ``failures``."""
DueAt = Callable[["State", BootKey | WallKey], float]
"""Function of ``timers`` that says when the thing behind a key is due on its clock; inf if never, or if it is gone."""

BOOT_OF_PROJECT: Final[tuple[BootOfProject, ...]] = get_args(BootOfProject)
WALL_OF_PROJECT: Final[tuple[WallOfProject, ...]] = get_args(WallOfProject)
OF_SESSION: Final[tuple[OfSession, ...]] = get_args(OfSession)


class State:
    """Everything that outlives a turn; ``turn_state`` has what lives for one.

    Attributes:
        secret: key of the pseudonyms of sessions, and of the masks of their tokens.
        sessions: sessions by id.
        owners: the same by owner; without keys there is one owner, without a name.
        memory: memory that the tasks of all projects take.
        held_welcomes: answers to hellos that are sent after the dispatch, by session.
        silent: silent sessions with leases whose specs are still being read, by id.
        cron_timers: timers of the next cron entry of each project.
        last_now: time of the previous turn.
        in_turn: True while a turn has begun and is not decided.
        left_undone: True if the previous turn left work undone because it was long enough.
        shared: buckets that several projects share, by name.
        next_log: number of the next entry of ``taskqueue log``.
        history: recent counts, written by the minute.
        daemon_minutes: figures of the daemon for each minute of the last day.
        attempt_seconds: histogram of the seconds of attempts that ended in this epoch.
        lateness_seconds: histogram of wall-clock seconds by which delayed tasks and cron entries were late, likewise.
        failures: range of failed attempts in the store.
        failure_counts: unfinished requests for failures, by session and number, in the order of their turns.
        slot_scans: unfinished requests for all slots of a project, by session and number, in the order of their turns.
        waits: requests to be answered later.
        task_waiters: requests that wait for the end of a task.
        drained: names of drained fetchers, which get no new tasks, in order of the drain.
        propagations: changes to be passed on along the edges of tasks.
        waiting_pushes: pushes that wait until it is known whether they close a cycle.
        flows: all flows.
        slot_clock: time of the turn, for slots.
        divided: slots of projects that have any, by project number.
        traps: detection of slots that get new tasks without end.
        watch_log: changes for the clients that watch; None if there are none.
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
        self.sessions: dict[str, Session] = {}
        self.owners: dict[str, OwnedSessions] = {}
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
        self.traps = TrapTable()
        self.watch_log: WatchLog | None = None
        self.task_waiters = TaskWaiters()
        self._n = Token(loaded.epoch << EPOCH_SHIFT)

    # ------------------------------------------------------------------------------------ numbers, projects

    def next_number(self) -> Token:
        """Return the next number, for a seq, an id or a token. Numbers grow, across restarts too."""
        self._n += 1  # type: ignore[assignment]  # a wrapper would cost a call in each task's life
        return self._n

    def lease_number(self, task: Task) -> int:
        """Return the number in the token of the task's lease; a later lease has a larger one.

        A token made before tokens were masked is itself the number.
        """
        number = task.token ^ derive(self.secret, task.lease.session).mask if task.lease is not None else 0
        return number if number >> EPOCH_SHIFT <= self.epoch else task.token

    def plan_cron(self, project: Project) -> None:
        """Plan the project's cron entries anew; a project without entries costs no later turn anything."""
        at = next_at(project, self.flows)
        if at < inf:
            self.cron_timers.note(project.number, at)
            self.pending.begin("cron")

    def layers(self, name: str) -> tuple[Layer, ...]:
        """Return the config's layers of settings for a project."""
        return self.config.defaults, self.config.projects.get(name, {})

    # ------------------------------------------------------------------------------------ sessions

    def session(self, name: str, now: Now, owner: str = "") -> Session:
        """Return the session with this id, marked active now; an unknown one is created for this owner."""
        session = self.sessions.get(name)
        if session is None:
            session = self.sessions[name] = Session(name, now.boot, self.secret, self._owned_by(owner))
            session.siblings.all[name] = session
            self.boot_timers.note(("forget", name), now.boot + self.config.session_timeout)
        session.siblings.hear(session, now.boot)
        return session

    def give(self, session: Session, owner: str) -> None:
        """Make a session belong to this owner."""
        self._leave_siblings(session)
        session.siblings = self._owned_by(owner)
        session.siblings.all[session.id] = session
        session.siblings.hear(session, session.heard_at)

    def _owned_by(self, owner: str) -> OwnedSessions:
        owned = self.owners.get(owner)
        if owned is None:
            owned = self.owners[owner] = OwnedSessions(owner)
        return owned

    def _leave_siblings(self, session: Session) -> None:
        session.siblings.remove(session)
        if not session.siblings.all:
            del self.owners[session.owner]

    def note_saved(self, session: Session, at: float) -> None:
        """Note that the session is stored as heard at this time (unix seconds)."""
        session.saved_at = at
        session.siblings.unsaved.pop(session.id, None)

    def dismiss(self, session: Session) -> None:
        """Send the session no tasks until its next hello."""
        self.fair_queue.dismiss(session)
        self.wishes.release(session.interest)
        session.interest = NO_WISHES

    def forget(self, session: Session) -> None:
        """Remove a session without leases."""
        self.dismiss(session)
        self.memory.ended_changed(-len(session.ended))
        self.connections.forget(session)
        self.waiting_pushes.forget(session.id)
        del self.sessions[session.id]
        self._leave_siblings(session)
        self.silent.pop(session.id, None)
        for kind in OF_SESSION:
            self.boot_timers.drop((kind, session.id))

    # ------------------------------------------------------------------------------------ tasks

    def want_held(self, project: Project, task: Task) -> None:
        """Request that a hollow task's spec is read for one of the next turns, if the task is in memory."""
        if task.taskid in project.queue.tasks:
            self.hollow.want(task)

    def release_bodies(self) -> None:
        """Release the bodies that memory need not keep; they stay in the store."""
        for task in self.hollow.take_released():
            project = self.projects.by_number.get(task.project)
            if project is not None and not task.spec_changed and project.queue.tasks.get(task.taskid) is task:
                task.spec = None
                self.resize(project, task, TASK_BYTES)

    def resize(self, project: Project, task: Task, size: int) -> None:
        """Set the memory size of a task in memory."""
        if task.state == PROCESSING:
            self.memory.leased_changed(size - task.size)
            task.size = size
        else:
            head = project.queue.head(task.state)
            head.resize(task, size)
            self.memory.note(project.number, task.state, head.bytes)

    def is_hollow(self, ref: SpecRef, task: Task) -> bool:
        """Return whether the task is still in memory, still has this seq, and still lacks its spec."""
        project = self.projects.by_number.get(ref.project)
        if project is None or task.spec is not None or task.seq != ref.seq:
            return False
        return project.queue.tasks.get(task.taskid) is task

    def _cron_due_at(self, number: int) -> float:
        project = self.projects.by_number.get(number)
        return inf if project is None else next_at(project, self.flows)
