"""Requests of fetchers about their leases: done, extend, release. The ends of leases are in ``lease_end``.

project, taskid, token ──► is the task processing under this token? ──yes──► in force
                                                                 └──no───► stale, and the reply says so

Notes are kept in memory, one per lease, and cost the store nothing. A task may have one a second, and one more at once,
because messages are late by different times: a fetcher that sends one a second must lose none.
"""

from __future__ import annotations

from math import inf
from typing import Final

from taskqueue.core.model.lease import Lease, TaskNote
from taskqueue.core.model.needs import LeaseAnswer, Needs
from taskqueue.core.model.project import Project
from taskqueue.core.model.session import Session
from taskqueue.core.model.task import NO_TOKEN, PROCESSING, Task
from taskqueue.core.moves import lease_end, slots
from taskqueue.core.moves.lease_end import expire, take_back
from taskqueue.core.moves.push import need_tasks
from taskqueue.core.request_rule import RequestRule, asked, asked_by
from taskqueue.core.state import State
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Corrupt, Rejected
from taskqueue.protocol.fetchers import Extend, LeaseRef, Note, NotedLease, NoteOutcome, NoteReply, Release, TokensReply
from taskqueue.protocol.fields import MAX_NOTE_BYTES, Boot
from taskqueue.protocol.messages import Incoming
from taskqueue.protocol.tasks import Done, DoneReply


def _need_done(turn: TurnState, request: Done, wanted: Needs) -> None:
    for item in request.tasks:
        project = turn.state.projects.by_name.get(item.project) if item else None
        if item is None or project is None:
            continue
        task = project.queue.tasks.get(item.taskid)
        if task is None:
            wanted.answered.append(LeaseAnswer(project.number, item.taskid, item.token))
        elif task.token == item.token:
            if task.spec is None:
                turn.ask(task)
            if task.slot:
                slots.need_slot(turn, project, task, item, wanted)
        if item.new:
            need_tasks(turn, item.project, item.new, wanted)


def _done(turn: TurnState, session: Session, incoming: Incoming) -> DoneReply:
    request = incoming.request
    assert isinstance(request, Done)
    return lease_end.finish_batch(turn, session, request, incoming.flaws)


def extend(turn: TurnState, session: Session, message: Extend) -> TokensReply:
    """Move deadlines to ``seconds`` from now, by default the tasks' timeouts; leases not in force are stale."""
    in_force, reply = _in_force(turn.state, message)
    now = turn.now.boot
    for project, task in in_force:
        lease = lease_of(task)
        turn.state.sessions[lease.session].count_slow(-lease.is_slow)
        project.count_slow(-lease.is_slow)
        project.queue.extend(turn.changes, task, now, Boot(now + (message.seconds or timeout_of(task, project))))
        turn.touch(project)
    return reply


def release(turn: TurnState, session: Session, message: Release) -> TokensReply:
    """Take back tasks that the fetcher has not started; leases not in force are stale.

    An expired lease counts as timed out, as it would in the next turn: a retry must not depend on which comes first.
    """
    state = turn.state
    in_force, reply = _in_force(state, message)
    own = sum(task.token in session.leases and not is_over(turn, task) for _, task in in_force)
    for project, task in in_force:
        if is_over(turn, task):
            expire(turn, project, task)
        else:
            take_back(turn, session, project, task)
        task.token = NO_TOKEN
    for ref in message.leases:
        if session.ended.pop(ref.token, None) is not None:
            state.memory.ended_changed(-1)
            turn.freed[session.id] = session
    if own:
        state.boot_timers.note(("fetcher_rest", session.id), session.hand_back(own, turn.now.boot) or inf)
    return reply


def _in_force(state: State, message: Extend | Release) -> tuple[list[tuple[Project, Task]], TokensReply]:
    """Collect the message's leases that are in force, each once, and the reply."""
    in_force: list[tuple[Project, Task]] = []
    stale: list[int] = []
    for ref in dict.fromkeys(message.leases):
        project = state.projects.by_name.get(ref.project)
        task = _leased(project, ref)
        if project is None or task is None:
            stale.append(ref.token)
        else:
            in_force.append((project, task))
    return in_force, TokensReply(n=message.n, counted=len(in_force), stale=stale)


def _leased(project: Project | None, ref: LeaseRef) -> Task | None:
    """Return the task if this lease of it is in force; else None."""
    task = project.queue.tasks.get(ref.taskid) if project is not None else None
    return None if task is None or task.state != PROCESSING or task.token != ref.token else task


NOTE_SECONDS: Final = 1.0
"""Shortest time between two notes of a task, over many."""


def note(turn: TurnState, message: Note) -> NoteReply:
    """Put notes on leases; nothing is stored.

    Raises:
        Rejected: a note has more than MAX_NOTE_BYTES.
    """
    for index, said in enumerate(message.notes):
        if isinstance(said.note, str) and len(said.note.encode()) > MAX_NOTE_BYTES:
            raise Rejected("malformed", f"notes[{index}].note: expected at most {MAX_NOTE_BYTES} bytes of utf-8")
    return NoteReply(n=message.n, outcomes=[_note(turn, said) for said in message.notes])


def _note(turn: TurnState, said: NotedLease) -> NoteOutcome:
    task = _leased(turn.state.projects.by_name.get(said.project), said)
    if task is None:
        return "stale"
    lease, now = lease_of(task), turn.now.boot
    next_at = now if lease.note is None else max(now, lease.note.next_at)
    if next_at > now + NOTE_SECONDS:
        return "too-soon"
    lease.put_note(TaskNote(said.note, next_at + NOTE_SECONDS))
    return "noted"


def timeout_of(task: Task, project: Project) -> float:
    """Compute the seconds that processing the task may take."""
    schedule = task.spec.schedule if task.spec else None
    if schedule is None or schedule.timeout is None:
        return project.settings.processing_timeout
    return schedule.timeout


def is_over(turn: TurnState, task: Task) -> bool:
    """Whether the task's lease has expired, though it has not ended."""
    return lease_of(task).deadline <= turn.now.boot


def lease_of(task: Task) -> Lease:
    """Return the lease of a leased task.

    Raises:
        Corrupt: the task has none.
    """
    if task.lease is None:
        raise Corrupt(f"task {task.taskid!r} is processing without a lease")
    return task.lease


def _need_extended(turn: TurnState, request: Extend, wanted: Needs) -> None:
    """Look up the specs of extended tasks, because their schedules may have a timeout."""
    for ref in () if request.seconds is not None else request.leases:
        project = turn.state.projects.by_name.get(ref.project)
        task = project.queue.tasks.get(ref.taskid) if project is not None else None
        if task is not None and task.token == ref.token:
            turn.ask(task)


def _need_over(turn: TurnState, request: Release, wanted: Needs) -> None:
    """Look up the specs of released tasks whose leases have expired."""
    for _, task in _in_force(turn.state, request)[0]:
        if is_over(turn, task):
            turn.ask(task)


REQUESTS: Final = (
    RequestRule(Extend, asked_by(extend), _need_extended, by_fetchers=True),
    RequestRule(Release, asked_by(release), _need_over, by_fetchers=True),
    RequestRule(Note, asked(note), keeps=False, by_fetchers=True),
    RequestRule(Done, _done, _need_done, by_fetchers=True),
)
