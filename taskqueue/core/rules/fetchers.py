"""Fetchers: hello, extend, release, and silence.

Capacity, not credit: a hello states facts, so a lost, repeated or late one does no harm. Of what a fetcher was sent

    number <= seen, not in holds      is lost: given back at once, or timed out if its lease is over
    number >  seen                    has not arrived: sent again, under the same number, RESENT_MOST at a time
    could not even be sent            is given back at once
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import Final

from msgspec import Raw

from taskqueue.core.projects.project import Project
from taskqueue.core.projects.session import Session
from taskqueue.core.request_rule import RequestRule, asked_by
from taskqueue.core.rules import suspects
from taskqueue.core.rules.eligibility import may_give
from taskqueue.core.rules.handout import as_assignment
from taskqueue.core.rules.lease_end import crash, expire, give_back, lose, take_back
from taskqueue.core.rules.slots import sent_again
from taskqueue.core.state import State
from taskqueue.core.tasks.lease import Lease
from taskqueue.core.tasks.needs import Needs
from taskqueue.core.tasks.task import NO_TOKEN, PROCESSING, Task
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Corrupt, Rejected
from taskqueue.protocol.fetchers import Extend, Hello, Release, Select, TokensReply, Welcome
from taskqueue.protocol.fields import Assignment
from taskqueue.protocol.message_room import TOKEN_BYTES, assignment_bytes, fetch_bytes, room_in
from taskqueue.protocol.messages import Outgoing

RESENT_MOST: Final = 64
"""Messages sent again for one hello; the next hello asks for more. More would only be dropped by a socket whose peer
can't read so fast, the welcome with them. What a fetcher claims to have seen is only its word: one that says 2^62 today
and 0 tomorrow must not be sent all that lies between."""


def hello(turn: TurnState, session: Session, message: Hello) -> Welcome:
    """Apply a fetcher's hello; a repeat of the last one only gets the reply.

    Raises:
        Rejected: a later hello has been applied (``too-old``). This may also reach the fetcher itself, if the hello was
            delayed; it has sent a newer one meanwhile, and heeds the reply to that. A fetcher that is refused its
            newest hello learns that somebody else uses its session. Or (``full``) there are ``max_sessions`` fetchers,
            or fetchers name too many projects.
    """
    state = turn.state
    if message.n < session.last_hello:
        raise Rejected(
            "too-old", f"n: {message.n} is too old; hello {session.last_hello} of this session has been heeded"
        )
    if message.n > session.last_hello:
        _check_room(state, session, message)
        session.interest = state.wishes.exchange(session.interest, message.projects if message.capacity else ())
        _end_unstated(turn, session, message)
        state.memory.ended_changed(-len(session.ended))
        session.take_hello(message, turn.now.boot)
        session.draining = session.label in state.drained
        state.fair_queue.prioritise(session, message.priority)
        session.keep_ended(state.config.max_leases - state.memory.ended)
        state.memory.ended_changed(+len(session.ended))
        _send_unseen(turn, session, message.seen)
        _enrol(turn, session, message.projects)
    config = state.config
    return Welcome(
        n=message.n,
        epoch=state.epoch,
        fetcher_timeout=config.fetcher_timeout,
        max_message=config.max_message,
        version=config.version,
        ended=_ended(session, message, config.max_message),
        draining=session.draining,
    )


def _ended(session: Session, message: Hello, max_message: int) -> list[int]:
    """Tokens of the hello whose leases are not in force, as many as fit; the next hello is told of the others."""
    ended = [token for token in message.holds if token not in session.leases]
    return ended[: room_in(max_message) // TOKEN_BYTES]


def extend(turn: TurnState, session: Session, message: Extend) -> TokensReply:
    """Move the deadlines of leases to ``seconds`` from now, by default their tasks' timeouts; others are stale."""
    in_force, reply = _in_force(turn.state, message)
    for project, task in in_force:
        project.queue.extend(turn.changes, task, turn.now.boot + (message.seconds or timeout_of(task, project)))
        turn.touch(project)
    return reply


def release(turn: TurnState, session: Session, message: Release) -> TokensReply:
    """Take back tasks that have not been started; leases that are not in force are answered as stale.

    A lease that is over has timed out: in the next turn it would, and a retry must not depend on which comes first.
    """
    state = turn.state
    in_force, reply = _in_force(state, message)
    own = sum(task.token in session.leases and not _is_over(turn, task) for _, task in in_force)
    for project, task in in_force:
        if _is_over(turn, task):
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
    """The leases of the message that are in force, each once, and the reply."""
    in_force: list[tuple[Project, Task]] = []
    stale: list[int] = []
    for ref in dict.fromkeys(message.leases):
        project = state.projects.by_name.get(ref.project)
        task = project.queue.tasks.get(ref.taskid) if project is not None else None
        if project is None or task is None or task.state != PROCESSING or task.token != ref.token:
            stale.append(ref.token)
        else:
            in_force.append((project, task))
    return in_force, TokensReply(n=message.n, counted=len(in_force), stale=stale)


def fall_silent(turn: TurnState, session: Session) -> None:
    """The fetcher has been silent for ``fetcher_timeout``: return its tasks, behind their equals.

    A task that it ran and is to blame fails instead: see ``suspects``. A returned task gets a new seq and is written
    anew, for which its spec may have to be read in the next turns.
    """
    state = turn.state
    state.memory.ended_changed(-len(session.ended))
    session.take_nothing()
    state.dismiss(session)
    if session.crashed is None:
        session.crashed = suspects.blame(session)
    for token, task in list(session.leases.items()):
        if task.spec is None:
            break
        if token in session.crashed:
            crash(turn, _project(state, task), task, to_blame=session.crashed[token])
        else:
            lose(turn, _project(state, task), task)
    for task in session.leases.values():
        state.hollow.want(task)
        state.silent[session.id] = session


def go_on_silent(turn: TurnState) -> None:
    """Return tasks of silent fetchers that the previous turn could not; a fetcher that is active again keeps them."""
    state, now = turn.state, turn.now
    silent, state.silent = state.silent, {}
    for session in silent.values():
        if session.heard_at < now.boot:
            fall_silent(turn, session)
        else:
            session.crashed = None
            state.boot_timers.note(("silence", session.id), now.boot + state.config.fetcher_timeout)


def miss(turn: TurnState, undelivered: Outgoing) -> None:
    """A message could not be sent: return its tasks, and hand the fetcher nothing until its next hello.

    This is only a hint: a fetcher that has changed its address since is not affected, and its hello is authoritative.
    """
    state = turn.state
    session = state.sessions.get(undelivered.session)
    if session is None or session.peer != undelivered.peer or not isinstance(undelivered.message, Select):
        return
    state.fair_queue.dismiss(session)
    for handed in undelivered.message.tasks:
        if task := session.leases.get(handed.token):
            give_back(turn, _project(state, task), task)


def timeout_of(task: Task, project: Project) -> float:
    """Seconds that processing the task may take."""
    schedule = task.spec.schedule if task.spec else None
    if schedule is None or schedule.timeout is None:
        return project.settings.processing_timeout
    return schedule.timeout


def _check_room(state: State, session: Session, message: Hello) -> None:
    limit = state.config.max_sessions
    if message.capacity and not session.capacity and len(state.fair_queue) >= limit:
        raise Rejected("full", f"capacity: there are {limit} fetchers already, which is max_sessions")


def _end_unstated(turn: TurnState, session: Session, message: Hello) -> None:
    """End the leases that a hello has seen and does not hold: timed out if they are over, else given back."""
    stated = set(message.holds)
    for token, task in list(session.leases.items()):
        if _lease(task).number > message.seen or token in stated:
            continue
        if _is_over(turn, task):
            expire(turn, _project(turn.state, task), task)
        else:
            give_back(turn, _project(turn.state, task), task)


def _is_over(turn: TurnState, task: Task) -> bool:
    return _lease(task).deadline <= turn.now.boot


def _send_unseen(turn: TurnState, session: Session, seen: int) -> None:
    """Send again messages that have not arrived, RESENT_MOST at most; empty ones fill gaps in the numbers."""
    state = turn.state
    last = min(session.select_number, seen + RESENT_MOST)
    unseen: dict[int, list[Assignment]] = {number: [] for number in range(seen + 1, last + 1)}
    for task in session.leases.values():
        lease = _lease(task)
        left = lease.deadline - turn.now.boot
        if seen < lease.number <= last and left > 0:
            project = _project(state, task)
            assignment = as_assignment(project, task, turn.spec_of(task), left)
            unseen[lease.number].append(sent_again(turn, project, task, assignment, timeout_of(task, project)))
    for number, tasks in unseen.items():
        turn.send(session, Select(number=number, tasks=tasks, fetch=_fetch_of(state, tasks)), after_sync=False)


def _fetch_of(state: State, tasks: Sequence[Assignment]) -> dict[str, Raw]:
    """The present ``fetch`` settings of the tasks' projects, to be sent with the tasks.

    They may have grown since the message was made. What would exceed ``max_message`` is left out: such a project's
    tasks come without it.
    """
    room = room_in(state.config.max_message) - sum(map(assignment_bytes, tasks))
    fetch: dict[str, Raw] = {}
    for name in dict.fromkeys(task.project for task in tasks):
        packed = state.projects.by_name[name].fetch
        if packed is not None and fetch_bytes(packed) <= room:
            room -= fetch_bytes(packed)
            fetch[name] = packed
    return fetch


def _enrol(turn: TurnState, session: Session, names: Sequence[str] | None) -> None:
    state = turn.state
    state.boot_timers.note(("silence", session.id), turn.now.boot + state.config.fetcher_timeout)
    turn.freed[session.id] = session
    if session.capacity == 0:
        state.fair_queue.dismiss(session)
    elif ring := state.fair_queue.enrol(session, names):
        for project in _wanted_by(state, names):
            if may_give(turn, project):
                ring.offer(project)


def _wanted_by(state: State, names: Sequence[str] | None) -> Iterable[Project]:
    if names is None:
        return state.projects.by_name.values()
    return [state.projects.by_name[name] for name in sorted(name for name in names if name in state.projects.by_name)]


def _project(state: State, task: Task) -> Project:
    return state.projects.by_number[task.project]


def _lease(task: Task) -> Lease:
    if task.lease is None:
        raise Corrupt(f"task {task.taskid!r} is held without a lease")
    return task.lease


def _need_unseen(turn: TurnState, request: Hello, wanted: Needs) -> None:
    """Look up the specs of tasks in messages that will be sent again, and of those whose leases are over."""
    session = turn.state.sessions.get(request.session)
    for task in session.leases.values() if session is not None else ():
        if request.seen < _lease(task).number <= request.seen + RESENT_MOST or _is_over(turn, task):
            turn.ask(task)


def _need_extended(turn: TurnState, request: Extend, wanted: Needs) -> None:
    """Look up the specs of extended tasks, whose schedules may have a timeout."""
    for ref in () if request.seconds is not None else request.leases:
        project = turn.state.projects.by_name.get(ref.project)
        task = project.queue.tasks.get(ref.taskid) if project is not None else None
        if task is not None and task.token == ref.token:
            turn.ask(task)


def _need_over(turn: TurnState, request: Release, wanted: Needs) -> None:
    """Look up the specs of released tasks whose leases are over."""
    for _, task in _in_force(turn.state, request)[0]:
        if _is_over(turn, task):
            turn.ask(task)


REQUESTS: Final = (
    RequestRule(Hello, asked_by(hello), _need_unseen, keeps=False),
    RequestRule(Extend, asked_by(extend), _need_extended, by_fetchers=True),
    RequestRule(Release, asked_by(release), _need_over, by_fetchers=True),
)
