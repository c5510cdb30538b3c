"""Everything that the scheduler knows, and the few moves that all its rules share.

The rules live in the folders ``rules`` and ``admin``, each a set of functions over this state; what must never come in
here is a rule that only one of them needs.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from math import inf
from typing import Final

from msgspec.structs import replace

from taskqueue.core.parts.events import Event, EventKind
from taskqueue.core.parts.history import History
from taskqueue.core.parts.timer_heap import TimerHeap
from taskqueue.core.projects.connections import Connections
from taskqueue.core.projects.failure_groups import FailureCount
from taskqueue.core.projects.fair_queue import FairQueue
from taskqueue.core.projects.grand_totals import GrandTotals
from taskqueue.core.projects.operation import Operation
from taskqueue.core.projects.project import Project
from taskqueue.core.projects.session import Session
from taskqueue.core.projects.shared_bucket import SharedBucket
from taskqueue.core.projects.waiters import Waits
from taskqueue.core.projects.wishes import NOTHING, Wishes
from taskqueue.core.settings.environment import Environment
from taskqueue.core.settings.settings import CoreConfig, Layer, Pace
from taskqueue.core.tasks.attempt import AttemptRecord
from taskqueue.core.tasks.changes import Changes
from taskqueue.core.tasks.failure_log import FailureLog
from taskqueue.core.tasks.memory_usage import MemoryUsage
from taskqueue.core.tasks.needs import FoundList, ListRef, SpecRef
from taskqueue.core.tasks.records import OUTCOME_WINDOW, DroppedSession, Loaded, SessionRecord
from taskqueue.core.tasks.task import (
    ATTEMPTS_KEPT,
    PROCESSING,
    TASK_BYTES,
    Spec,
    Task,
    deferred_bytes,
    kept_error,
    size_of,
)
from taskqueue.errors import Corrupt, Rejected
from taskqueue.protocol.fields import Now, Token
from taskqueue.protocol.replies import AnyOutgoing, Outgoing

NO_PACE: Final = Pace(rate=0.0)
"""Of a shared bucket that the config does not have any more: nothing is better than too much."""

EPOCH_SHIFT: Final = 44
"""number = epoch (19 bits) | n (44 bits): positive as a signed 64-bit number."""

BootKey = tuple[str, str | int]
"""("lease" | "bucket" | "wait" | "counters", project number), ("shared", bucket), ("watch", operation) or
("silence" | "forget" | "rest", session)."""
WallKey = tuple[str, str | int]
"""("due" | "check" | "hours" | "hold" | "old", project number), or ("failures", 0)."""


class State:
    """The scheduler's state.

    Attributes:
        projects, numbered: by name, and by number; ``names`` are in order.
        said_bytes: that what was said of their settings takes, of all together.
        secret: the key of the pseudonyms of sessions, and of the masks of their tokens.
        sessions: by id, the one that was silent for longest first.
        dirty: projects that this turn touched, by number.
        low: numbers of projects that have an order to be read further.
        wanted: hollow tasks whose specs must be read, some in each turn.
        asked: those of them that are being looked up for this turn.
        memory: what all of them take in memory.
        heavy: tasks whose bodies are not to be held from the next turn on.
        awaited: by project number, its first task, if its body was missing when it was to go out: ``memory_limits``.
        freed: sessions that may have got free slots in this turn.
        silent: those that have fallen silent, and hold tasks still of which the specs are being read.
        barred: by number, projects whose first tasks none of the fetchers that waited may take: see ``suspects``.
        crons: when which project's next cron job is due; ``ticking`` are those that are, looked up for this turn.
        before: the time of the turn before.
        finishing: projects that had nothing left to do at the end of the turn before.
        shared: buckets that several projects share, by name; ``drawn`` are those that this turn took tokens of.
        operations: by id, the oldest first; ``operations_running`` by their turns, ``operations_ended`` (ids) by ends.
        paging: the one of them whose step this turn takes.
        entered: numbers of projects that operations have come to in this turn.
        swept: by project number, up to which seq what the store has of live tasks was dropped by ``clear``; in the
            order of their turns. ``sweeping`` are those whose next pages are looked up for this turn.
        old: numbers of projects in which something is too old, in the order of their turns; ``ridding``: in this one.
        clears: this turn may clear a project.
        next_log: number of the next entry of the log.
        history: what happened lately, to be written by the minute.
        lists: parts of orders to be shown, as asked for, and as looked up for this turn; ``listed``: as read.
        failures: which failed attempts the store has.
        failure_counts: requests for them that are under way, by session and number, in the order of their turns;
            ``counted`` is the one whose next page was looked up for this turn.
        waits: requests that are to be answered later.
        said, events: what this turn says, to clients and to whoever minds the daemon.
        more: this turn left work undone because it was long enough.
    """

    def __init__(self, loaded: Loaded, config: CoreConfig, environment: Environment) -> None:
        self.config = config
        self.environment = environment
        self.epoch = loaded.epoch
        self.secret = loaded.secret
        self.changes = Changes()
        self.fair_queue = FairQueue()
        self.wishes = Wishes()
        self.connections = Connections()
        self.projects: dict[str, Project] = {}
        self.numbered: dict[int, Project] = {}
        self.names: list[str] = []
        self.said_bytes = 0
        self.grand_totals = GrandTotals()
        self.next_project = loaded.next_project
        self.next_log = loaded.next_log
        self.history = History(loaded.history)
        self.sessions: OrderedDict[str, Session] = OrderedDict()
        self.boot: TimerHeap[BootKey] = TimerHeap(self._boot_due_at)
        self.wall: TimerHeap[WallKey] = TimerHeap(self._wall_due_at)
        self.dirty: dict[int, Project] = {}
        self.low: dict[int, None] = {}
        self.wanted: dict[SpecRef, Task] = {}
        self.asked: dict[SpecRef, Task] = {}
        self.memory = MemoryUsage()
        self.heavy: list[Task] = []
        self.awaited: OrderedDict[int, Task] = OrderedDict()
        self.freed: dict[str, Session] = {}
        self.silent: dict[str, Session] = {}
        self.barred: dict[int, Project] = {}
        self.crons: TimerHeap[int] = TimerHeap(self._cron_due_at)
        self.ticking: dict[int, Project] = {}
        self.before = Now(0.0, 0.0)
        self.finishing: dict[int, Project] = {}
        self.shared: dict[str, SharedBucket] = {}
        self.drawn: dict[str, SharedBucket] = {}
        self.operations: dict[int, Operation] = {}
        self.operations_running: OrderedDict[int, Operation] = OrderedDict()
        self.operations_ended: deque[int] = deque()
        self.paging: Operation | None = None
        self.entered: dict[int, None] = {}
        self.swept: dict[int, int] = {}
        self.sweeping: dict[int, int] = {}
        self.old: dict[int, None] = {}
        self.ridding: list[int] = []
        self.clears = False
        self.lists: dict[ListRef, ListRef] = {}
        self.listed: dict[ListRef, FoundList] = {}
        self.failures = FailureLog(loaded.first_failure, loaded.last_failure)
        self.failure_counts: OrderedDict[tuple[str, int], FailureCount] = OrderedDict()
        self.counted: FailureCount | None = None
        self.events: list[Event] = []
        self.waits = Waits()
        self.said: list[Outgoing] = []
        self.more = False
        self._n = Token(loaded.epoch << EPOCH_SHIFT)

    # ------------------------------------------------------------------------------------ numbers, projects

    def next_number(self) -> Token:
        """The next number: a seq, an id, or one to make a token of. Grows, across restarts too."""
        self._n += 1  # type: ignore[assignment]  # wrapping it again would cost a call in each task's life
        return self._n

    def layers(self, name: str) -> tuple[Layer, ...]:
        """What the config says of a project."""
        return self.config.defaults, self.config.projects.get(name, {})

    def project(self, name: str) -> Project:
        """The project of that name.

        Raises:
            Rejected: it is unknown.
        """
        project = self.projects.get(name)
        if project is None:
            hint = f"make it with: taskqueue project start {name}"
            raise Rejected("unknown-project", f'project: "{name}" is unknown; {hint}')
        return project

    def new_project_number(self) -> int:
        """The number of a project that is made now."""
        self.next_project += 1
        self.changes.kept.next_project = self.next_project
        return self.next_project - 1

    def touch(self, project: Project) -> None:
        """This turn changes something of the project or of its tasks."""
        self.dirty[project.number] = project

    # ------------------------------------------------------------------------------------ sessions

    def session(self, name: str, now: Now) -> Session:
        """The session of that id, heard now; an unknown one is made."""
        session = self.sessions.get(name)
        if session is None:
            session = self.sessions[name] = Session(name, now.boot, self.secret)
            self.boot.note(("forget", name), now.boot + self.config.session_timeout)
        self.sessions.move_to_end(name)
        session.heard_at = now.boot
        return session

    def save_session(self, session: Session, now: Now) -> None:
        """Let the store know about when the session was last heard: once a minute is exact enough."""
        if not session.saved_at <= now.wall < session.saved_at + 60:
            session.saved_at = now.wall
            self.changes.kept.sessions.append(SessionRecord(session.id, now.wall))

    def dismiss(self, session: Session) -> None:
        """The session wants no tasks before it states anew what it wants."""
        self.fair_queue.dismiss(session)
        self.wishes.let_go(session.interest)
        session.interest = NOTHING

    def forget_session(self, session: Session) -> None:
        """Forget a session that holds nothing, with its kept outcomes."""
        self.dismiss(session)
        self.memory.ended -= len(session.ended)
        self.connections.forget(session)
        del self.sessions[session.id]
        self.freed.pop(session.id, None)
        self.silent.pop(session.id, None)
        for kind in _OF_SESSIONS:
            self.boot.drop((kind, session.id))
        if session.saved_at or session.kept_requests is None:  # if not, the store has nothing of it
            slots = range(OUTCOME_WINDOW) if session.kept_requests is None else tuple(session.kept_requests)
            self.changes.kept.dropped_sessions.append(DroppedSession(session.id, slots))

    def tell(self, kind: EventKind, project: Project, now: Now, reason: str) -> None:
        """Tell whoever minds the daemon."""
        self.events.append(Event(kind, project.name, now.wall, reason))

    def say(self, session: Session, message: AnyOutgoing, *, kept: bool) -> None:
        """Send the session a message; ``kept``: not before what the turn keeps is on disk."""
        self.said.append(Outgoing(session.peer, message, kept, session.id))

    # ------------------------------------------------------------------------------------ tasks

    def spec_of(self, task: Task) -> Spec:
        """The task's spec, which is here because ``needs`` asked for it."""
        if task.spec is None:
            raise Corrupt(f"the spec of task {task.taskid!r} (seq {task.seq}) was not looked up")
        return task.spec

    def want(self, task: Task) -> None:
        """Have the task's spec read for one of the next turns, if it is hollow."""
        if task.spec is None:
            self.wanted[SpecRef(task.project, task.seq)] = task

    def want_held(self, project: Project, task: Task) -> None:
        """The same for a task that may be held in memory or not."""
        if task.taskid in project.queue.tasks:
            self.want(task)

    def ask(self, task: Task) -> None:
        """Have the task's spec read for this very turn, if it is hollow."""
        if task.spec is None:
            self.asked[SpecRef(task.project, task.seq)] = task

    def fill(self, specs: Mapping[SpecRef, Spec]) -> None:
        """Take in the specs that were asked for."""
        for ref, task in self.asked.items():
            if not self.is_hollow(ref, task):
                continue
            project = self.numbered[ref.project]
            if ref not in specs:
                raise Corrupt(f"project {project.name!r}: the store has no spec of task {task.taskid!r}")
            task.spec = specs[ref]
            self._resize(project, task, size_of(task.spec))
            if task.state == PROCESSING:
                self.heavy.append(task)  # it was wanted for this turn only
            self.touch(project)
        self.asked.clear()

    def shed(self) -> None:
        """Let go of bodies that are not to be held; if they are needed again, they are in the store."""
        for task in self.heavy:
            project = self.numbered.get(task.project)
            if project is not None and not task.spec_changed and project.queue.tasks.get(task.taskid) is task:
                task.spec = None
                self._resize(project, task, TASK_BYTES)
        self.heavy.clear()

    def _resize(self, project: Project, task: Task, size: int) -> None:
        """The task, which is held, takes so many bytes from now on."""
        if task.state == PROCESSING:
            self.memory.leased += size - task.size
            task.size = size
        else:
            head = project.queue.head(task.state)
            head.resize(task, size)
            self.memory.note(project.number, task.state, head.bytes)

    def is_hollow(self, ref: SpecRef, task: Task) -> bool:
        """The task is still held, is still what the ref says, and still lacks its spec."""
        project = self.numbered.get(ref.project)
        if project is None or task.spec is not None or task.seq != ref.seq:
            return False
        return project.queue.tasks.get(task.taskid) is task

    def unlease(self, task: Task) -> Session:
        """End the task's lease as its fetcher has said; where the task goes then is for the caller to say."""
        lease = task.lease
        if lease is None:
            raise Corrupt(f"task {task.taskid!r} has no lease to end")
        session = self.sessions[lease.session]
        del session.leases[task.token]
        if session.passed:
            session.passed.pop(task.token, None)
        if session.suspects:
            session.suspects.pop(task.token, None)
        self.memory.leases -= 1
        self.memory.leased -= task.size
        if lease.deferred is not None:
            self.memory.deferred -= deferred_bytes(lease.deferred)
        self.freed[session.id] = session
        if lease.check:
            self.numbered[task.project].pause.leave(lease.check)
        return session

    def revoke(self, task: Task) -> Session:
        """End the task's lease although its fetcher has not said so, and may still work on the task."""
        passed_on = task.lease is not None and task.token in self.sessions[task.lease.session].passed
        number = task.lease.number if task.lease is not None else 0
        session = self.unlease(task)
        if not passed_on and self.memory.ended < self.config.max_leases:
            session.ended[task.token] = number
            self.memory.ended += 1
        return session

    def note_attempt(self, task: Task, attempt: AttemptRecord) -> None:
        """Keep how an attempt ended, in place of the oldest one in the task's history."""
        if attempt.error:
            attempt = replace(attempt, error=kept_error(attempt.error))
        self.changes.keep_attempt(task, task.attempts, attempt)
        task.attempts = (task.attempts + 1) % ATTEMPTS_KEPT
        self.changes.touch(task)

    # ------------------------------------------------------------------------------------ when things are due

    def _boot_due_at(self, key: BootKey) -> float:
        kind, name = key
        if kind == "shared":
            return self.shared[str(name)].token_at()
        if kind == "watch":
            operation = self.operations.get(int(name))
            return inf if operation is None else operation.waiters.next_at()
        if kind in OF_PROJECTS:
            project = self.numbered.get(int(name))
            return inf if project is None else OF_PROJECTS[kind](project)
        session = self.sessions.get(str(name))
        if session is None:
            return inf
        if kind == "silence":
            return session.heard_at + self.config.fetcher_timeout if session.capacity or session.leases else inf
        if kind == "rest":
            return session.rest_until or inf
        return session.heard_at + max(self.config.session_timeout, self.config.fetcher_timeout)

    def _wall_due_at(self, key: WallKey) -> float:
        kind, number = key
        if kind == "failures":
            return self.failures.old_at
        project = self.numbered.get(int(number))
        return inf if project is None else OF_PROJECTS[kind](project)

    def _cron_due_at(self, number: int) -> float:
        project = self.numbered.get(number)
        return inf if project is None else min(project.ticks.values(), default=inf)


def _token_at(project: Project) -> float:
    """When a project that has work will have a token; inf if it hands out nothing anyway."""
    if project.state not in ("running", "checking") or not len(project.queue.ready):
        return inf
    return project.bucket.token_at()


def _opens_at(project: Project) -> float:
    """When a project that has work opens; inf if it is open."""
    return inf if project.hours.open or not len(project.queue.ready) else project.hours.until


_OF_SESSIONS: Final = ("silence", "forget", "rest")

OF_PROJECTS: Final[Mapping[str, Callable[[Project], float]]] = {
    "lease": lambda project: project.queue.processing.next_at(),
    "bucket": _token_at,
    "counters": lambda project: project.save_at,
    "wait": lambda project: project.waiters.next_at(),
    "due": lambda project: project.queue.due_at(),
    "check": Project.check_at,
    "hours": _opens_at,
    "hold": lambda project: min(project.holds.values(), default=inf),
    "old": Project.old_at,
}
"""When the appointments of a project are due, by their kind."""
