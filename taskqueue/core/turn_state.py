"""State of one turn: made when it begins, dropped when it has been decided, so nothing has to be reset.

    begin ──► what is looked up                     due, asked, lists
    decide ─► what it touches, and its results      dirty, freed, drawn, entered; changes, outgoing, events, more

The rules are functions over it. ``state`` is what earlier turns have left, and the rules change it as they decide:
if a turn that has begun can't be decided, the whole scheduler is thrown away.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Raw

from taskqueue.core.model.attempt_records import FailuresRef, as_kept
from taskqueue.core.model.bucket import SharedBucket
from taskqueue.core.model.changes import Changes
from taskqueue.core.model.cron_times import DueTick
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
from taskqueue.core.model.undo_rows import UndoRef
from taskqueue.core.state import State
from taskqueue.errors import Corrupt
from taskqueue.protocol.callers import EVERYBODY
from taskqueue.protocol.fetchers import HelloWanted
from taskqueue.protocol.fields import OUTCOME_WINDOW
from taskqueue.protocol.messages import AnyOutgoing, Outgoing
from taskqueue.protocol.values import Attempt

NOT_LOOKED_UP: Final = Found()
"""Empty results, in place while a turn begins."""


class DueWork:
    """Work that takes a step in a turn, chosen when the turn begins so that its part of the store is looked up.

    Attributes:
        ticking: due ticks of cron entries, by project number.
        sweeping: by project number, the seq up to which it is swept, and the page of this turn.
        retiring: numbers of projects with tasks past their retention.
        paging, page: the operation that takes a step, and its page of tasks, if any.
        rerun, undo: position of that operation, if it is a rerun or an undo.
        old_failures: page of old failures.
        counted: request for failures that gets a page of this turn.
        scanned: request for slots that gets a page of this turn.
        flow: step of a flow.
        uncounted: page of delayed tasks whose retries are counted.
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
        "undo",
    )

    def __init__(self) -> None:
        self.ticking: dict[int, list[DueTick]] = {}
        self.sweeping: dict[int, tuple[int, PageRef]] = {}
        self.retiring: list[int] = []
        self.paging: Operation | None = None
        self.page: PageRef | None = None
        self.rerun: RerunRef | None = None
        self.undo: UndoRef | None = None
        self.old_failures: FailuresRef | None = None
        self.counted: FailureCount | None = None
        self.scanned: SlotScan | None = None
        self.flow: FlowStep | None = None
        self.uncounted: ListRef | None = None


NOTHING_DUE: Final = DueWork()
"""Work of a turn in which no step is due; never written to."""


class TurnState:
    """State of one turn, and the moves that all rules share.

    Attributes:
        state: state of the scheduler, which outlives the turn.
        now: time of the turn.
        second: unix second in which its new tasks arrive; 0 if the clock shows one that can't be stored.
        found: results of its look-ups; empty until it is decided.
        changes: changes of tasks, and everything to be written.
        asked: hollow tasks whose specs are looked up, by reference.
        lists: pages of task lists, from the page requested to the page looked up.
        caller: sender of the request at hand; everybody while look-ups are collected.
        due: work that takes a step by itself.
        clears: True if a request may clear a project.
        gives_parents: True if a request has tasks that wait for others.
        dirty: changed projects, by number.
        freed: sessions that may have free places now, by id.
        drawn: changed shared buckets, to be written, by name.
        entered: numbers of projects that operations have reached.
        changed_flows: changed flows, by number.
        flow_states: state in which each task of a flow is counted, by the id of the Task object.
        outgoing, events: messages to clients, and events for the daemon log.
        more: True if it leaves work undone because it was long enough.
        waiters_answered: number of waiting requests that it has answered.
    """

    __slots__ = (
        "asked", "caller", "changed_flows", "changes", "clears", "dirty", "drawn", "due", "entered", "events",
        "flow_states", "found", "freed", "gives_parents", "lists", "more", "now", "outgoing", "second", "state",
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
        self.caller = EVERYBODY
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
        """Take the number of a new project."""
        projects = self.state.projects
        number = projects.take_number()
        self.changes.writes.next_project = projects.next_number
        return number

    def reaches(self, project: Project | None) -> bool:
        """Whether the sender of the request at hand reaches the project; None: one that was deleted."""
        scope = self.caller.scope
        return scope is None or (project is not None and scope.has(project.name))

    def emit(self, kind: EventKind, project: Project, reason: str) -> None:
        """Emit an event for the daemon log."""
        self.events.append(Event(kind, project.name, self.now.wall, reason))

    # ------------------------------------------------------------------------------------ sessions

    def send(self, session: Session, message: AnyOutgoing | Raw, *, after_sync: bool) -> None:
        """Send the session a message; with ``after_sync`` not before the turn's writes are synced."""
        self.outgoing.append(Outgoing(session.peer, message, after_sync, session.id))

    def save_session(self, session: Session) -> None:
        """Store when the session was last active, at most once a minute."""
        wall = self.now.wall
        if not session.saved_at <= wall < session.saved_at + 60:
            self.state.note_saved(session, wall)
            self.changes.writes.sessions.append(SessionRecord(session.id, wall, session.owner))

    def give_session(self, session: Session, owner: str) -> None:
        """Make a session that has no owner belong to this one, also in the store."""
        self.state.give(session, owner)
        session.saved_at = 0.0
        self.save_session(session)

    def forget_session(self, session: Session) -> None:
        """Delete a session without leases, with its stored outcomes."""
        self.state.forget(session)
        self.freed.pop(session.id, None)
        if session.saved_at or session.kept_requests is None:  # otherwise the store has nothing of it
            slots = range(OUTCOME_WINDOW) if session.kept_requests is None else tuple(session.kept_requests)
            self.changes.writes.dropped_sessions.append(DroppedSession(session.id, slots))

    # ------------------------------------------------------------------------------------ tasks

    def find(self, project: Project, taskid: str) -> Task | None:
        """Find a task in its present state, in memory or looked up; None if it is unknown."""
        return project.queue.tasks.get(taskid) or self.changes.beyond.get((project.number, taskid))

    def task_at(self, ref: TaskRef) -> Task | None:
        """Find a task in its present state, in memory or looked up; None if it or its project is unknown."""
        project = self.state.projects.by_number.get(ref.project)
        return None if project is None else self.find(project, ref.taskid)

    def spec_of(self, task: Task) -> Spec:
        """Return the task's spec, which was read for this turn."""
        if task.spec is None:
            raise Corrupt(f"the spec of task {task.taskid!r} (seq {task.seq}) was not looked up")
        return task.spec

    def ask(self, task: Task) -> None:
        """Request that the task's spec is read for this turn, if it is hollow."""
        if task.spec is None:
            self.asked[SpecRef(task.project, task.seq)] = task

    def fill(self, specs: Mapping[SpecRef, Spec]) -> list[Task]:
        """Take in the requested specs; return the tasks whose specs are missing in the store."""
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
                state.hollow.release_body(task)  # needed in this turn only
            self.touch(project)
        return missing

    def unlease(self, task: Task) -> Session:
        """End the task's lease and free its place at the fetcher; the caller gives the task its next state."""
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
        if session.slow:
            session.count_slow(-lease.is_slow)
            state.projects.by_number[task.project].count_slow(-lease.is_slow)
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
        """End the task's lease before its fetcher answers; its place stays occupied, as the fetcher may still run it.

        The place is freed if the fetcher has passed the task on, or beyond ``max_leases`` ended leases. The caller
        gives the task its next state.

        Args:
            timed_out: the deadline has passed. The fetcher knows that, so it is not asked for a hello: a welcome that
                names the lease would stop the task, which may still run a little longer, as a late success counts.
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
        """Ask a fetcher for a hello, once until it comes; the welcome names the leases that have ended.

        Its next heartbeat may be 20 s away, and until then it would work for nothing.
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
