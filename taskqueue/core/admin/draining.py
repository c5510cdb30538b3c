"""Draining: the fetchers of a name get no new tasks, finish what they have begun, and are told so.

    drain NAME ──► its sessions leave the line ──► hello-wanted ──► hello ──► welcome: draining
    a hello of that name, today or in a year ───────────────────────────────► welcome: draining
    resume NAME ─────────────────────────────────► hello-wanted ──► hello ──► welcome: not draining, and tasks

Rules:
1. Drained is a name, not a session: who comes later under it, or changes its name to it, gets nothing either. One that
   states no name has its pseudonym. It stays drained, across restarts, until it is resumed.
2. From the turn of the request on nothing new is handed to these. What they hold stays theirs, with its lease: a
   ``select`` that has not arrived is sent again, reports count, leases are extended.
3. They are asked for a hello at once. Only its welcome says whether they drain, so nothing that is lost or late can say
   it wrongly. Who is resumed gets tasks from that hello on, not before: it would hand back what it does not expect.
4. What they hand back counts like any other release, but for the rest that follows one: there is nothing to rest from.
5. DRAINED_MOST names may be drained. A name may be drained while nobody has it.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from taskqueue.core.admin import change_log
from taskqueue.core.admin.pages import that_fit
from taskqueue.core.projects.session import Session
from taskqueue.core.request_rule import RequestRule, Who, asked, asked_for_change
from taskqueue.core.state import State
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Rejected
from taskqueue.protocol.fetchers import FetcherDo, FetcherReply, FetcherShow, HelloWanted
from taskqueue.protocol.message_room import room_in

DRAINED_MOST: Final = 1000
"""Names; all of them are written when one changes, and each has 128 characters at most."""

SHOWN_MOST: Final = 100
"""Fetchers of one name that are shown."""

AWAY_SHOWN: Final = 100
"""Drained names of nobody that a list of fetchers ends with."""


def act(turn: TurnState, by: Who, message: FetcherDo) -> FetcherReply:
    """Drain or resume a name.

    Raises:
        Rejected: to be resumed is a name that is not drained and that no fetcher has (``unknown-fetcher``), or there
            are DRAINED_MOST already (``full``).
    """
    state, name = turn.state, message.fetcher
    sessions = _sessions(state, name)
    before = "drained" if name in state.drained else "not drained"
    if message.action == "drain":
        _check_room(state, name)
        state.drained[name] = None
    else:
        _check_known(state, name, sessions)
        state.drained.pop(name, None)
    turn.changes.writes.drained = list(state.drained)
    for session in sessions:
        if session.draining != (name in state.drained):
            turn.send(session, HelloWanted(epoch=state.epoch), after_sync=True)
    if message.action == "drain":
        _dismiss(turn, sessions)
    change_log.note(turn, by, f"fetcher {message.action}", detail=f"{name} (was {before})")
    return _reply(state, message.n, name, sessions)


def show(turn: TurnState, message: FetcherShow) -> FetcherReply:
    """The fetchers of a name, and whether it is drained.

    Raises:
        Rejected: no fetcher has the name, and it is not drained (``unknown-fetcher``).
    """
    state, name = turn.state, message.fetcher
    sessions = _sessions(state, name)
    _check_known(state, name, sessions)
    reply = _reply(state, message.n, name, sessions)
    fetching = [session for session in sessions if session.fetches]
    first = islice(sorted(fetching, key=lambda session: session.pseudonym), SHOWN_MOST)
    views = (session.view(turn.now.boot) for session in first)
    reply.fetchers = that_fit(state, views, room_in(state.config.max_message))
    return reply


def away(state: State) -> list[str]:
    """The first drained names that no fetcher has now."""
    if not state.drained:
        return []
    present = {session.label for session in state.sessions.values() if session.fetches}
    return list(islice((name for name in state.drained if name not in present), AWAY_SHOWN))


def _dismiss(turn: TurnState, sessions: list[Session]) -> None:
    """Nothing is handed to these from this turn on."""
    for session in sessions:
        session.draining = True
        turn.freed[session.id] = session


def _sessions(state: State, name: str) -> list[Session]:
    """Who has that name, fetching or not; since the start of the daemon it has said so."""
    return [each for each in state.sessions.values() if each.last_hello and each.label == name]


def _check_room(state: State, name: str) -> None:
    if name not in state.drained and len(state.drained) >= DRAINED_MOST:
        hint = "resume some; taskqueue fetchers names those that nobody has"
        raise Rejected("full", f"fetcher: {DRAINED_MOST} names are drained already, which is the most; {hint}")


def _check_known(state: State, name: str, sessions: list[Session]) -> None:
    if name not in state.drained and not any(session.fetches for session in sessions):
        reason = f'fetcher: nobody of the name "{name}" is connected, and it is not drained; see: taskqueue fetchers'
        raise Rejected("unknown-fetcher", reason)


def _reply(state: State, n: int, name: str, sessions: list[Session]) -> FetcherReply:
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
    )


REQUESTS: Final = (
    RequestRule(FetcherDo, asked_for_change(act), slow_ms=2.0),
    RequestRule(FetcherShow, asked(show), keeps=False, slow_ms=2.0),
)
