"""Requests of and about fetchers: hello, lists, drain and resume; and the loss of a fetcher that falls silent.

Capacity, not credit: a hello states facts, so a lost, repeated or late hello does no harm. A task in a ``select`` with

    number <= seen, not in holds      is lost: given back at once, or timed out if its lease has expired
    number >  seen                    has not arrived: sent again, under the same number, RESENT_MOST at a time
    a message that can't be sent      is given back at once

Draining: the fetchers of a name get no new tasks, finish those they have, and learn it from their welcome.

    drain NAME ──► its sessions leave the line ──► hello-wanted ──► hello ──► welcome: draining
    a hello of that name, today or in a year ───────────────────────────────► welcome: draining
    resume NAME ─────────────────────────────────► hello-wanted ──► hello ──► welcome: not draining, and tasks

1. A name is drained, not a session: a fetcher that takes the name later gets no tasks either. The name of a fetcher
   that states none is its pseudonym. A name stays drained, across restarts, until it is resumed.
2. From the turn of the request on these fetchers get no new tasks. They keep their leases: a ``select`` that has not
   arrived is sent again, reports count, leases are extended.
3. The daemon asks them for a hello at once. Only the welcome says whether they drain, so a lost or late message can't
   say it wrongly. A resumed fetcher gets tasks after that hello, not before: it would hand back unexpected tasks.
4. A release by a draining fetcher counts like any other, but without the rest that follows.
5. At most DRAINED_MOST names are drained. A name without a fetcher may be drained.
6. With keys, only one for all projects drains and resumes: fetchers of any projects may take a name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from msgspec import Raw
from msgspec.structs import replace

from taskqueue.core.model.needs import Needs
from taskqueue.core.model.project import Project
from taskqueue.core.model.session import HeldWelcome, Session
from taskqueue.core.model.task import Task
from taskqueue.core.moves import change_log, dispatch
from taskqueue.core.moves.dispatch import as_assignment, may_give
from taskqueue.core.moves.lease_end import crash, expire, give_back, lose
from taskqueue.core.moves.slots import sent_again
from taskqueue.core.request_rule import SLOW_MS, RequestRule, Who, asked, asked_by, asked_for_change
from taskqueue.core.requests.leases import is_over, lease_of, timeout_of
from taskqueue.core.requests.pages import of_fetchers, sees_fetcher, that_fit
from taskqueue.core.state import State
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Rejected
from taskqueue.protocol.fetchers import (
    FetcherDo,
    FetcherReply,
    Fetchers,
    FetcherShow,
    FetchersReply,
    Hello,
    HelloWanted,
    Select,
    Welcome,
)
from taskqueue.protocol.fields import Peer
from taskqueue.protocol.message_room import TOKEN_BYTES, assignment_bytes, fetch_bytes, room_in
from taskqueue.protocol.messages import Incoming, Outgoing
from taskqueue.protocol.values import Assignment

RESENT_MOST: Final = 64
"""Messages sent again for one hello, at most; the next hello asks for more. With more, the socket of a slow peer would
drop them and the welcome. A fetcher's ``seen`` is not trusted: after 2^62 today and 0 tomorrow, the daemon must not
send everything in between."""


def hello(turn: TurnState, session: Session, message: Hello) -> Welcome | None:
    """Apply a fetcher's hello; a repeat of the last one only gets the reply. None: the reply comes after the dispatch.

    Raises:
        Rejected: a later hello has been applied (``too-old``). A fetcher ignores this for a delayed hello, because it
            has sent a newer one; for its newest hello it means that another process uses its session. Or (``full``)
            there are ``max_sessions`` fetchers, or fetchers name too many projects.
    """
    state = turn.state
    if message.n < session.last_hello:
        raise Rejected(
            "too-old", f"n: {message.n} is too old; this session has already applied hello {session.last_hello}"
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
        if session.owner and session.capacity and not session.saved_at and state.config.has_room:
            # Before its first report, too, no other key is to end its leases after a restart.
            turn.save_session(session)
    config = state.config
    answer = Welcome(
        n=message.n,
        epoch=state.epoch,
        fetcher_timeout=config.fetcher_timeout,
        max_message=config.max_message,
        version=config.version,
        ended=_ended(session, message, config.max_message),
        draining=session.draining,
    )
    if not message.after_hand_out:
        return answer
    state.held_welcomes[session.id] = HeldWelcome(session, answer)
    return None


def welcome(turn: TurnState) -> None:
    """Answer, at the end of a turn, the hellos that asked for a reply after the dispatch.

    A fetcher with room waits while heads or bodies have to be read or the turn left work undone, because these may
    bring tasks for it; at most for the turns that reading takes without a task for it.
    """
    state = turn.state
    is_reading = bool(state.pending.low or state.hollow.to_read or turn.more)
    held, state.held_welcomes = state.held_welcomes, {}
    for key, each in held.items():
        session, number = each.session, each.session.select_number
        turns = each.turns if number == each.number else state.pending.turns_of_reading
        if is_reading and turns and session.free > 0:
            state.held_welcomes[key] = HeldWelcome(session, each.welcome, number, turns - 1)
        else:
            turn.send(session, each.welcome, after_sync=state.config.synced_handout)


def _ended(session: Session, message: Hello, max_message: int) -> list[int]:
    """List tokens of the hello whose leases are not in force, as many as fit; the next welcome has the others."""
    ended = [token for token in message.holds if token not in session.leases]
    return ended[: room_in(max_message) // TOKEN_BYTES]


def fall_silent(turn: TurnState, session: Session) -> None:
    """Return the tasks of a fetcher that has been silent for ``fetcher_timeout``, behind their equals.

    Tasks that may have crashed the fetcher fail instead: see ``dispatch``. A returned task gets a new seq and is
    written again, for which its spec may have to be read in the next turns.
    """
    state = turn.state
    state.memory.ended_changed(-len(session.ended))
    session.take_nothing()
    state.dismiss(session)
    if session.crashed is None:
        session.crashed = dispatch.blame(session)
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


def cut_off(turn: TurnState, cut: Iterable[Peer | str]) -> list[Incoming]:
    """Give back the tasks of these peers, whose connections are closed for good, and owners, and blame none for it.

    What their requests wait for is not told them.

    Returns:
        Their requests that wait for a search for a cycle, which are to be refused.
    """
    state, gone = turn.state, dict.fromkeys(cut)
    waiting: list[Incoming] = []
    for session in [each for each in state.sessions.values() if each.peer in gone or each.owner in gone]:
        state.connections.forget(session)
        session.peer = Peer(b"")
        session.cuts += 1
        session.crashed = {}
        waiting += state.waiting_pushes.forget(session.id)
        fall_silent(turn, session)
    return waiting


def go_on_silent(turn: TurnState) -> None:
    """Return tasks of silent fetchers that the previous turn could not return; an active fetcher keeps its tasks."""
    state, now = turn.state, turn.now
    silent, state.silent = state.silent, {}
    for session in silent.values():
        # One that was cut off may have been heard just before.
        if session.heard_at < now.boot or not session.peer:
            fall_silent(turn, session)
        else:
            session.crashed = None
            state.boot_timers.note(("silence", session.id), now.boot + state.config.fetcher_timeout)


def miss(turn: TurnState, undelivered: Outgoing) -> None:
    """Return the tasks of a message that could not be sent, and dispatch nothing to the fetcher until its next hello.

    This is only a hint: a fetcher with a new address is not affected, and its hello is authoritative.
    """
    state = turn.state
    session = state.sessions.get(undelivered.session)
    if session is None or session.peer != undelivered.peer or not isinstance(undelivered.message, Select):
        return
    state.fair_queue.dismiss(session)
    for handed in undelivered.message.tasks:
        if task := session.leases.get(handed.token):
            give_back(turn, _project(state, task), task)


def _check_room(state: State, session: Session, message: Hello) -> None:
    limit = state.config.max_sessions
    if message.capacity and not session.capacity and len(state.fair_queue) >= limit:
        raise Rejected(
            "full", f"capacity: {limit} fetchers are connected already, as many as limits.max_sessions allows"
        )


def _end_unstated(turn: TurnState, session: Session, message: Hello) -> None:
    """End the leases that a hello has seen and does not hold: timed out if they have expired, else given back."""
    stated = set(message.holds)
    for token, task in list(session.leases.items()):
        if lease_of(task).number > message.seen or token in stated:
            continue
        if is_over(turn, task):
            expire(turn, _project(turn.state, task), task)
        else:
            give_back(turn, _project(turn.state, task), task)


def _send_unseen(turn: TurnState, session: Session, seen: int) -> None:
    """Send messages that have not arrived again, RESENT_MOST at most; empty ones fill gaps in the numbers."""
    state = turn.state
    last = min(session.select_number, seen + RESENT_MOST)
    unseen: dict[int, list[Assignment]] = {number: [] for number in range(seen + 1, last + 1)}
    for task in session.leases.values():
        lease = lease_of(task)
        left = lease.deadline - turn.now.boot
        if seen < lease.number <= last and left > 0:
            project = _project(state, task)
            assignment = as_assignment(project, task, turn.spec_of(task), left)
            unseen[lease.number].append(sent_again(turn, project, task, assignment, timeout_of(task, project)))
    for number, tasks in unseen.items():
        message = Select(number=number, tasks=tasks, fetch=_fetch_of(state, tasks))
        # The first one may still wait for the sync of its turn, which this one must not overtake.
        turn.send(session, message, after_sync=state.config.synced_handout)


def _fetch_of(state: State, tasks: Sequence[Assignment]) -> dict[str, Raw]:
    """Collect the current ``fetch`` settings of the tasks' projects.

    They may have grown since the message was made. Settings that exceed ``max_message`` are left out.
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
            else:
                state.fair_queue.part(project)


def _wanted_by(state: State, names: Sequence[str] | None) -> Iterable[Project]:
    if names is None:
        return state.projects.by_name.values()
    return [state.projects.by_name[name] for name in sorted(name for name in names if name in state.projects.by_name)]


def _project(state: State, task: Task) -> Project:
    return state.projects.by_number[task.project]


def _need_unseen(turn: TurnState, request: Hello, wanted: Needs) -> None:
    """Look up the specs of tasks that will be sent again, and of those whose leases have expired."""
    session = turn.state.sessions.get(request.session)
    for task in session.leases.values() if session is not None else ():
        if request.seen < lease_of(task).number <= request.seen + RESENT_MOST or is_over(turn, task):
            turn.ask(task)


# ------------------------------------------------------------------------------------------------ draining


DRAINED_MOST: Final = 1000
"""Drained names, at most; all are written when one changes, and each has at most 128 characters."""

SHOWN_MOST: Final = 100
"""Fetchers of one name that are shown, at most."""

AWAY_SHOWN: Final = 100
"""Drained names without a fetcher at the end of a list of fetchers, at most."""


def drain_or_resume(turn: TurnState, by: Who, message: FetcherDo) -> FetcherReply:
    """Drain or resume a name.

    Raises:
        Rejected: the name to resume is not drained and no fetcher has it (``unknown-fetcher``), or DRAINED_MOST names
            are drained already (``full``).
    """
    state, name = turn.state, message.fetcher
    sessions = _sessions(state, name)
    before = "drained" if name in state.drained else "not drained"
    if message.action == "drain":
        _check_drained(state, name)
        state.drained[name] = None
    else:
        _check_known(turn, name, sessions)
        state.drained.pop(name, None)
    turn.changes.writes.drained = list(state.drained)
    for session in sessions:
        if session.draining != (name in state.drained):
            turn.send(session, HelloWanted(epoch=state.epoch), after_sync=True)
    if message.action == "drain":
        _dismiss(turn, sessions)
    change_log.note(turn, by, f"fetcher {message.action}", detail=f"{name} (was {before})")
    return _fetcher_reply(state, message.n, name, sessions)


def show_fetcher(turn: TurnState, message: FetcherShow) -> FetcherReply:
    """Answer with the fetchers of a name that the sender sees, and whether it is drained.

    Fetchers of others may have the name, too; they neither hide these nor show.

    Raises:
        Rejected: none has the name, and it is not drained (``unknown-fetcher``).
    """
    state, name = turn.state, message.fetcher
    sessions = [session for session in _sessions(state, name) if sees_fetcher(turn, session)]
    _check_known(turn, name, sessions)
    reply = _fetcher_reply(state, message.n, name, sessions)
    fetching = [session for session in sessions if session.fetches]
    first = islice(sorted(fetching, key=lambda session: session.pseudonym), SHOWN_MOST)
    views = (session.view(turn.now.boot) for session in first)
    return replace(reply, fetchers=that_fit(state, views, room_in(state.config.max_message)))


def names_away(state: State) -> list[str]:
    """List the first AWAY_SHOWN drained names that no fetcher has."""
    if not state.drained:
        return []
    present = {session.label for session in state.sessions.values() if session.fetches}
    return list(islice((name for name in state.drained if name not in present), AWAY_SHOWN))


def _dismiss(turn: TurnState, sessions: list[Session]) -> None:
    for session in sessions:
        session.draining = True
        turn.freed[session.id] = session


def _sessions(state: State, name: str) -> list[Session]:
    """Sessions of that name, fetching or not, that have said hello since the daemon started."""
    return [each for each in state.sessions.values() if each.last_hello and each.label == name]


def _check_drained(state: State, name: str) -> None:
    if name not in state.drained and len(state.drained) >= DRAINED_MOST:
        hint = "resume some; those without a fetcher are at the end of: taskqueue fetcher list"
        raise Rejected("full", f"fetcher: {DRAINED_MOST} names are drained already, the most allowed; {hint}")


def _check_known(turn: TurnState, name: str, sessions: list[Session]) -> None:
    """Refuse a name without a fetcher that is not drained; a drained one may be that of projects outside."""
    is_drained = name in turn.state.drained and turn.caller.scope is None
    if is_drained or any(session.fetches for session in sessions):
        return
    reason = f'fetcher: no fetcher named "{name}" is connected or drained; see: taskqueue fetcher list'
    raise Rejected("unknown-fetcher", reason)


def _fetcher_reply(state: State, n: int, name: str, sessions: list[Session]) -> FetcherReply:
    fetching = [session for session in sessions if session.fetches]
    return FetcherReply(
        n=n,
        fetcher=name,
        draining=name in state.drained,
        found=len(fetching),
        capacity=sum(session.capacity for session in fetching),
        holds=sum(len(session.leases) for session in fetching),
        hung=sum(session.hung_places for session in fetching),
        beyond=sum(session.beyond for session in fetching),
        slow=sum(session.slow for session in fetching),
    )


# ------------------------------------------------------------------------------------------------ lists


def list_fetchers(turn: TurnState, message: Fetchers) -> FetchersReply:
    """Answer with a page of fetchers, and sums over all matching ones."""
    state = turn.state
    if message.project:
        state.projects.named(message.project)
    page = of_fetchers(turn, message)
    room = room_in(state.config.max_message)
    away = that_fit(state, names_away(state) if turn.caller.scope is None else (), room // 4)
    room -= len(state.environment.pack(away))
    shown = that_fit(state, (session.view(turn.now.boot) for session in page.sessions), room)
    return FetchersReply(
        n=message.n,
        fetchers=shown,
        more=page.more or len(shown) < len(page.sessions),
        found=len(page.found),
        capacity=sum(session.capacity for session in page.found),
        holds=sum(len(session.leases) for session in page.found),
        hung=sum(session.hung_places for session in page.found),
        beyond=sum(session.beyond for session in page.found),
        slow=sum(session.slow for session in page.found),
        away=away,
    )


REQUESTS: Final = (
    RequestRule(Hello, asked_by(hello), _need_unseen, keeps=False),
    RequestRule(FetcherDo, asked_for_change(drain_or_resume), slow_ms=2.0),
    RequestRule(FetcherShow, asked(show_fetcher), keeps=False, slow_ms=2.0),
    RequestRule(Fetchers, asked(list_fetchers), keeps=False, slow_ms=SLOW_MS),
)
