"""Answers to requests: a request that changes something is done once, and its outcome is kept with the change.

request ──► known number ─────────► the kept answer again
        ──► new number ───────────► done, or refused ──► the outcome is kept, if it was done
        ──► read only ────────────► answered anew each time
        ──► push that may close a cycle ──► waits for the search, and later changes of its session wait behind it
        ──► session of another key's owner ──► refused, and nothing is told of it

A session belongs to the owner of the key that spoke in it first: a name and the time of its authorisation, so a name
that was revoked and authorised anew is another owner. Without keys every client may speak in every session.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from taskqueue.core.model.records import KeptOutcome
from taskqueue.core.model.session import Session
from taskqueue.core.model.waiters import CUT_OFF
from taskqueue.core.model.waiting_pushes import WaitingPush
from taskqueue.core.moves import disk_full
from taskqueue.core.request_rules import RULES
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Corrupt, Rejected
from taskqueue.protocol.base import AnyReply, ErrorReply
from taskqueue.protocol.fetchers import Hello, HelloWanted
from taskqueue.protocol.messages import Incoming, Outgoing

TOO_FAR: Final = "n: {n} is too far after {latest}, the last number of this session; choose a new session"
NOT_YOURS: Final = "session: it belongs to the owner of another key; choose a new session"


def answer_request(turn: TurnState, incoming: Incoming) -> None:
    """Answer a request, unless it has to wait."""
    request, owner = incoming.request, incoming.caller.owner
    session = turn.state.sessions.get(request.session)
    if session is None:
        session = turn.state.session(request.session, turn.now, owner)
    elif owner and session.owner != owner:
        if session.owner:
            _refuse(turn, incoming, "not-yours", NOT_YOURS)
            return
        turn.give_session(session, owner)
    session.siblings.hear(session, turn.now.boot)
    if session.kept_requests is None:
        session.learn(_kept_outcomes(turn, session))
    rule = RULES[type(request)]
    if not session.follows(request.n) and (rule.keeps or isinstance(request, Hello)):
        _refuse(turn, incoming, "too-far", TOO_FAR.format(n=request.n, latest=session.latest))
        return
    if session.peer != incoming.peer and turn.state.connections.move(session, incoming.peer):
        turn.freed[session.id] = session
    session.address = incoming.address
    if not rule.keeps:
        _answer(turn, session, _try(turn, session, incoming), after_sync=False)
    elif session.has_done(request.n):
        _answer(turn, session, _recall(turn, session, request.n), after_sync=True)
    else:
        _do(turn, session, incoming)
    if not session.last_hello and session.asked_for_hello != incoming.peer:
        _want_hello(turn, session, incoming)


def answer_waited(turn: TurnState, incoming: Incoming) -> None:
    """Answer a request that waited for a search, at its session's present address, if the session is still known.

    If this turn has cut the session off, which then has no address, its sender may do less by now: it is refused.
    """
    session = turn.state.sessions.get(incoming.request.session)
    if session is not None and not session.peer:
        _refuse(turn, incoming, "forbidden", CUT_OFF)
    elif session is not None:
        _do(turn, session, incoming)


def _refuse(turn: TurnState, incoming: Incoming, code: str, reason: str) -> None:
    """Refuse a request; the answer goes to the sender, which may not be the session's own client."""
    reply = ErrorReply(n=incoming.request.n, code=code, reason=reason)
    turn.outgoing.append(Outgoing(incoming.peer, reply, False, incoming.request.session))


def _want_hello(turn: TurnState, session: Session, incoming: Incoming) -> None:
    """Ask a session that seems to be a fetcher for a hello, once per address; producers need none."""
    if session.leases or RULES[type(incoming.request)].by_fetchers:
        session.asked_for_hello = incoming.peer
        turn.send(session, HelloWanted(epoch=turn.state.epoch), after_sync=True)


def _do(turn: TurnState, session: Session, incoming: Incoming) -> None:
    """Do a request that changes something, and keep its outcome with the change."""
    n = incoming.request.n
    if not session.may_do(n):
        reason = f"n: {n} is too old; {session.highest} has been answered"
        _answer(turn, session, ErrorReply(n=n, code="too-old", reason=reason), after_sync=True)
        return
    reply = _try(turn, session, incoming)
    if reply is not None and not isinstance(reply, ErrorReply) and _is_kept(turn, reply):
        session.note_done(reply.n)
        answer = turn.state.environment.pack(reply)
        turn.changes.writes.outcomes.append(KeptOutcome(session.id, reply.n, answer))
        turn.save_session(session)
    _answer(turn, session, reply, after_sync=True)


def _is_kept(turn: TurnState, reply: AnyReply) -> bool:
    return turn.state.config.has_room or disk_full.is_kept(reply)


def _recall(turn: TurnState, session: Session, n: int) -> Raw:
    """Return the stored answer to a repeated request, from this turn or looked up for it."""
    for outcome in turn.changes.writes.outcomes:
        if (outcome.session, outcome.n) == (session.id, n):
            return outcome.answer
    answer = _kept_outcomes(turn, session).get(n)
    if answer is None:
        raise Corrupt(f"session {session.label}: the outcome of request {n} was not kept")
    return answer


def _kept_outcomes(turn: TurnState, session: Session) -> dict[int, Raw]:
    return turn.found.sessions.get(session.id, {})


def _try(turn: TurnState, session: Session, incoming: Incoming) -> AnyReply | None:
    rule = RULES[type(incoming.request)]
    turn.caller = incoming.caller
    try:
        if rule.keeps and "cycles" in turn.state.pending.steps and _must_wait(turn, incoming):
            return None
        if rule.grows and not turn.state.config.has_room:
            disk_full.refuse()
        return rule.answer(turn, session, incoming)
    except Rejected as rejected:
        return ErrorReply(n=incoming.request.n, code=rejected.code, reason=rejected.reason)


def _must_wait(turn: TurnState, incoming: Incoming) -> bool:
    """Return whether a request has to wait, or waits already, behind an earlier one of its session.

    Requests that end or extend leases never wait.
    """
    request, line = incoming.request, turn.state.waiting_pushes
    if line.has(request.session, request.n):
        return True
    if RULES[type(request)].by_fetchers or not line.has_any_of(request.session):
        return False
    line.add(WaitingPush(incoming))
    return True


def _answer(turn: TurnState, session: Session, reply: AnyReply | Raw | None, *, after_sync: bool) -> None:
    """Send a reply; None if the request waits."""
    if reply is not None:
        turn.send(session, reply, after_sync=after_sync)
