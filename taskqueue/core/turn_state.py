"""What lives for one turn: made when it begins, gone when it has been decided. So nothing has to be reset.

    begin ──► what is looked up, and for whom        due, asked, lists
    decide ─► what it touches, and what comes of it  dirty, freed, drawn, entered; changes, outgoing, events, more

The rules are functions over it. What they know of the turns before is ``state``, which is written as they decide: a
turn that has begun is decided, or else the whole scheduler is thrown away.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Raw

from taskqueue.core.model.attempt_records import FailuresRef, as_kept
from taskqueue.core.model.bucket import SharedBucket
from taskqueue.core.model.changes import Changes
from taskqueue.core.model.edges import TaskRef
from taskqueue.core.model.events import Event, EventKind
from taskqueue.core.model.failure_groups import FailureCount
from taskqueue.core.model.flow import Flow, FlowStep
from taskqueue.core.model.needs import Found, ListRef, PageRef, SpecRef
from taskqueue.core.model.now import Now
from taskqueue.core.model.operation import Operation
from taskqueue.core.model.project import Project
from taskqueue.core.model.records import DroppedSession, SessionRecord
from taskqueue.core.model.rerun_set import RerunRef
from taskqueue.core.model.session import EndedLease, Session
from taskqueue.core.model.slot_scan import SlotScan
from taskqueue.core.model.spec import Spec
from taskqueue.core.model.task import ATTEMPTS_KEPT, LATEST_SECOND, PROCESSING, Task, deferred_bytes, size_of
from taskqueue.core.state import State
from taskqueue.errors import Corrupt
from taskqueue.protocol.fetchers import HelloWanted
from taskqueue.protocol.fields import OUTCOME_WINDOW
from taskqueue.protocol.messages import AnyOutgoing, Outgoing
from taskqueue.protocol.values import Attempt

NOT_LOOKED_UP: Final = Found()
"""What has been looked up while a turn begins."""


class DueWork:
    """What takes a step in a turn, taken up when the turn begins so that its part of the store is looked up.

    Attributes:
        ticking: by number, projects with cron jobs that are due.
        sweeping: by project number, up to which seq it is swept, and the page that this is done with.
        retiring: numbers of projects in which something is too old.
        paging, page: the operation that takes a step, and the page of tasks that it goes through, if any.
        rerun: where it stands, if it is a rerun.
        old_failures: the page of failures that are old.
        counted: the request for failures that a page is counted for.
        scanned: the request for slots that a page is looked at for.
        flow: the step that a flow takes.
        uncounted: the delayed tasks that are counted.
    """

    __slots__ = (
        "counted",
        "flow",
        "old_failures",
        "page",
        "paging",
        "rerun",
        "retiring",
        "scanned",
        "sweeping",
        "ticking",
        "uncounted",
    )

    def __init__(self) -> None:
        self.ticking: dict[int, Project] = {}
        self.sweeping: dict[int, tuple[int, PageRef]] = {}
        self.retiring: list[int] = []
        self.paging: Operation | None = None
        self.page: PageRef | None = None
        self.rerun: RerunRef | None = None
        self.old_failures: FailuresRef | None = None
        self.counted: FailureCount | None = None
        self.scanned: SlotScan | None = None
        self.flow: FlowStep | None = None
        self.uncounted: ListRef | None = None


NOTHING_DUE: Final = DueWork()
"""Of a turn that begins without work for steps; nothing is written into it."""


class TurnState:
    """What lives for one turn, and the moves that all rules share.

    Attributes:
        state: what outlives the turn.
        now: the time of the turn.
        second: whole unix second in which its new tasks come; 0: the clock shows one that can't be kept.
        found: what was looked up for it; empty until it is decided.
        changes: what it has done to tasks, and all that is to be written.
        asked: hollow tasks whose specs are looked up.
        lists: parts of orders to be shown, as asked for, and as looked up.
        due: what takes a step in it by itself.
        clears: a project may be cleared.
        gives_parents: a request of it has tasks that wait for others.
        dirty: projects that it touched, by number.
        freed: sessions that may have got free places.
        drawn: shared buckets that it changed, to be written, by name.
        entered: numbers of projects that operations have come to.
        changed_flows: by number, those of which it has changed anything.
        flow_states: by the id of an object, the state in which a task of a flow has been counted.
        outgoing, events: what it says, to clients and to whoever minds the daemon.
        more: it leaves work undone because it was long enough.
        waiters_answered: how many waiting requests it has answered.
    """

    __slots__ = (
        "asked", "changed_flows", "changes", "clears", "dirty", "drawn", "due", "entered", "events", "flow_states",
        "found", "freed", "gives_parents", "lists", "more", "now", "outgoing", "second", "state",
        "waiters_answered",
    )  # fmt: skip

    def __init__(self, state: State, now: Now) -> None:
        self.state = state
        self.now = now
        self.second = int(now.wall) if 0.0 < now.wall < LATEST_SECOND else 0
        self.found = NOT_LOOKED_UP
        self.changes = Changes(state.next_number)
        self.asked: dict[SpecRef, Task] = {}
        self.lists: dict[ListRef, ListRef] = {}
        self.due = NOTHING_DUE
        self.clears = False
        self.gives_parents = False
        self.dirty: dict[int, Project] = {}
        self.freed: dict[str, Session] = {}
        self.drawn: dict[str, SharedBucket] = {}
        self.entered: dict[int, None] = {}
        self.changed_flows: dict[int, Flow] = {}
        self.flow_states: dict[int, int] = {}
        self.waiters_answered = 0
        self.outgoing: list[Outgoing] = []
        self.events: list[Event] = []
        self.more = False

    # ------------------------------------------------------------------------------------ projects

    def touch(self, project: Project) -> None:
        """Mark the project as changed in this turn."""
        self.dirty[project.number] = project

    def new_project_number(self) -> int:
        """The number of a new project."""
        projects = self.state.projects
        number = projects.take_number()
        self.changes.writes.next_project = projects.next_number
        return number

    def emit(self, kind: EventKind, project: Project, reason: str) -> None:
        """Emit an event for people."""
        self.events.append(Event(kind, project.name, self.now.wall, reason))

    # ------------------------------------------------------------------------------------ sessions

    def send(self, session: Session, message: AnyOutgoing | Raw, *, after_sync: bool) -> None:
        """Send the session a message; ``after_sync``: not before the turn's writes are synced."""
        self.outgoing.append(Outgoing(session.peer, message, after_sync, session.id))

    def save_session(self, session: Session) -> None:
        """Store when the session was last active: once a minute is exact enough."""
        wall = self.now.wall
        if not session.saved_at <= wall < session.saved_at + 60:
            session.saved_at = wall
            self.changes.writes.sessions.append(SessionRecord(session.id, wall))

    def forget_session(self, session: Session) -> None:
        """Delete a session that holds nothing, with its stored outcomes."""
        self.state.forget(session)
        self.freed.pop(session.id, None)
        if session.saved_at or session.kept_requests is None:  # if not, the store has nothing of it
            slots = range(OUTCOME_WINDOW) if session.kept_requests is None else tuple(session.kept_requests)
            self.changes.writes.dropped_sessions.append(DroppedSession(session.id, slots))

    # ------------------------------------------------------------------------------------ tasks

    def find(self, project: Project, taskid: str) -> Task | None:
        """The task as it is now, in memory or looked up; None if it is unknown."""
        return project.queue.tasks.get(taskid) or self.changes.beyond.get((project.number, taskid))

    def task_at(self, ref: TaskRef) -> Task | None:
        """The task as it is now, in memory or looked up; None if it, or its project, is unknown."""
        project = self.state.projects.by_number.get(ref.project)
        return None if project is None else self.find(project, ref.taskid)

    def spec_of(self, task: Task) -> Spec:
        """The task's spec, which was read for this turn."""
        if task.spec is None:
            raise Corrupt(f"the spec of task {task.taskid!r} (seq {task.seq}) was not looked up")
        return task.spec

    def ask(self, task: Task) -> None:
        """Have the task's spec read for this very turn, if it is hollow."""
        if task.spec is None:
            self.asked[SpecRef(task.project, task.seq)] = task

    def fill(self, specs: Mapping[SpecRef, Spec]) -> list[Task]:
        """Take in the specs that were asked for; returns the tasks that have none."""
        state, missing = self.state, []
        for ref, task in self.asked.items():
            if not state.is_hollow(ref, task):
                continue
            project = state.projects.by_number[ref.project]
            if ref not in specs:
                missing.append(task)
                continue
            task.spec = specs[ref]
            state.resize(project, task, size_of(task.spec))
            if task.state == PROCESSING:
                state.hollow.release_body(task)  # it was wanted for this turn only
            self.touch(project)
        return missing

    def unlease(self, task: Task) -> Session:
        """End the task's lease, which no longer takes room of its fetcher; the caller gives the task its next state."""
        lease = task.lease
        if lease is None:
            raise Corrupt(f"task {task.taskid!r} has no lease to end")
        state = self.state
        session = state.sessions[lease.session]
        del session.leases[task.token]
        if session.passed:
            session.passed.pop(task.token, None)
        if session.suspects:
            session.suspects.pop(task.token, None)
        deferred = 0
        if lease.deferred is not None:
            deferred = deferred_bytes(lease.deferred)
            if lease.links is not None:
                self.changes.propagate("edges", task.project, task.taskid)
        state.memory.lease_ended(task.size, deferred)
        self.freed[session.id] = session
        if lease.check:
            state.projects.by_number[task.project].pause.leave(lease.check)
        return session

    def revoke(self, task: Task, *, timed_out: bool = False) -> Session:
        """End the task's lease without its fetcher's word: the task keeps its room there, as it may still be run.

        Not if the fetcher has passed it on, nor beyond ``max_leases`` of these. The caller gives the task its next
        state.

        Args:
            timed_out: the lease ends by its time, which its fetcher knows, so it is not asked for a hello. It may run
                the task a little longer, as a late success counts; a welcome that named the lease would stop it.
        """
        state = self.state
        passed_on = task.lease is not None and task.token in state.sessions[task.lease.session].passed
        number = task.lease.number if task.lease is not None else 0
        session = self.unlease(task)
        if not passed_on and state.memory.ended < state.config.max_leases:
            name = state.projects.by_number[task.project].name
            session.ended[task.token] = EndedLease(number, self.now.boot, name, task.taskid)
            state.memory.ended_changed(+1)
        if not passed_on and not timed_out:
            self._recall(session)
        return session

    def _recall(self, session: Session) -> None:
        """Ask a fetcher for a hello, whose welcome names the leases that have ended; once until it comes.

        Its next heartbeat may be 20 s away, and all that time it would work for nothing.
        """
        if session.recall():
            self.send(session, HelloWanted(epoch=self.state.epoch), after_sync=True)

    def note_attempt(self, task: Task, attempt: Attempt) -> None:
        """Store how an attempt ended, in place of the oldest one in the task's history."""
        if attempt.error or attempt.kind:
            attempt = as_kept(attempt)
        self.changes.keep_attempt(task, task.attempts, attempt)
        task.attempts = (task.attempts + 1) % ATTEMPTS_KEPT
        self.changes.touch(task)
