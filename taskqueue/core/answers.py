"""Answering what is heard: a request that changes something is done once, and its outcome is kept with what it changed.

request ──► its number is known ──► the kept answer again
        ──► its number is new ────► done, or refused ──► the outcome is kept, if it was done
        ──► it only reads ────────► answered, each time anew
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Raw

from taskqueue.core.admin import change_log, failure_counts, operations, project_requests, task_list, why
from taskqueue.core.admin.invariants import check
from taskqueue.core.projects.session import Session
from taskqueue.core.rules import (
    completion,
    disk_full,
    event_history,
    fetchers,
    lease_end,
    push,
)
from taskqueue.core.tasks.records import KeptOutcome
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Corrupt, Rejected
from taskqueue.protocol.replies import (
    AnyReply,
    DoneReply,
    ErrorReply,
    HelloWanted,
    NewTasksReply,
    Outgoing,
    VerifyReply,
)
from taskqueue.protocol.requests import (
    Bulk,
    Done,
    Extend,
    Failures,
    Fetchers,
    GroupDo,
    Hello,
    Incoming,
    Log,
    NewTasks,
    OperationList,
    OperationShow,
    ProjectDo,
    ProjectHold,
    ProjectSet,
    ProjectShow,
    ProjectUnset,
    ProjectWait,
    Release,
    Stats,
    StatsHistory,
    Status,
    TaskCancel,
    TaskList,
    TaskRetry,
    TaskShow,
    Verify,
    Why,
)


def hear(turn: TurnState, heard: Incoming) -> None:
    """Answer one request, unless it will be answered when there is something to say."""
    request = heard.request
    session = turn.state.session(request.session, turn.now)
    if session.kept_requests is None:
        session.learn(_kept_outcomes(turn, session))
    if not session.follows(request.n) and (isinstance(request, Hello) or not isinstance(request, READS)):
        _refuse_jump(turn, session, heard)
        return
    if session.peer != heard.peer and turn.state.connections.hear(session, heard.peer):
        turn.freed[session.id] = session
    session.address = heard.address
    if isinstance(request, READS):
        _answer(turn, session, _try(turn, session, heard), kept=False)
    elif session.has_done(request.n):
        _answer(turn, session, _recall(turn, session, request.n), kept=True)
    elif session.may_do(request.n):
        _do(turn, session, heard)
    else:
        reason = f"n: {request.n} is too old; {session.highest} has been answered"
        _answer(turn, session, ErrorReply(n=request.n, code="too-old", reason=reason), kept=True)
    if not session.last_hello and session.asked_for_hello != heard.peer:
        _want_hello(turn, session, heard)


def _refuse_jump(turn: TurnState, session: Session, heard: Incoming) -> None:
    """Say so to whoever sent it, who need not be the session's own client: that one stays where it was heard."""
    n = heard.request.n
    reason = f"n: {n} is too far after {session.latest}, the last number of this session; choose a new session"
    turn.outgoing.append(Outgoing(heard.peer, ErrorReply(n=n, code="too-far", reason=reason), False, session.id))


def _want_hello(turn: TurnState, session: Session, heard: Incoming) -> None:
    """Ask who seems to be a fetcher for a hello, once at each address; producers say none, and need none."""
    if session.leases or isinstance(heard.request, FETCHERS_SAY):
        session.asked_for_hello = heard.peer
        turn.say(session, HelloWanted(epoch=turn.state.epoch), kept=True)


def _do(turn: TurnState, session: Session, heard: Incoming) -> None:
    """Do a request that changes something; its outcome is kept with what it changed."""
    reply = _try(turn, session, heard)
    if reply is not None and not isinstance(reply, ErrorReply) and _is_kept(turn, reply):
        session.note_done(reply.n)
        answer = turn.state.environment.pack(reply)
        turn.changes.writes.outcomes.append(KeptOutcome(session.id, reply.n, answer))
        turn.save_session(session)
    _answer(turn, session, reply, kept=True)


def _is_kept(turn: TurnState, reply: AnyReply) -> bool:
    return turn.state.config.has_room or disk_full.is_kept(reply)


def _recall(turn: TurnState, session: Session, n: int) -> Raw:
    """The kept answer to a repeat: of this very turn, or looked up for it."""
    for outcome in turn.changes.writes.outcomes:
        if (outcome.session, outcome.n) == (session.id, n):
            return outcome.answer
    answer = _kept_outcomes(turn, session).get(n)
    if answer is None:
        raise Corrupt(f"session {session.label}: the outcome of request {n} was not kept")
    return answer


def _kept_outcomes(turn: TurnState, session: Session) -> dict[int, Raw]:
    return turn.found.sessions.get(session.id, {})


def _try(turn: TurnState, session: Session, heard: Incoming) -> AnyReply | None:
    try:
        if not turn.state.config.has_room:
            disk_full.refuse(heard.request)
        return _HANDLERS[type(heard.request)](turn, session, heard)
    except Rejected as rejected:
        return ErrorReply(n=heard.request.n, code=rejected.code, reason=rejected.reason)


def _answer(turn: TurnState, session: Session, reply: AnyReply | Raw | None, *, kept: bool) -> None:
    """None: it will be answered when there is something to say."""
    if reply is not None:
        turn.say(session, reply, kept=kept)


# ---------------------------------------------------------------------------------------- handlers

READS: Final = (
    Hello, Status, Fetchers, Stats, StatsHistory, ProjectShow, ProjectWait, Why, TaskShow, TaskList, Failures,
    OperationShow, OperationList, Log, Verify,
)  # fmt: skip
"""Requests that keep nothing: a repeat of one may well get another answer."""


FETCHERS_SAY: Final = (Done, Extend, Release)
"""Requests of fetchers, and of those to whom they have passed tasks on."""

PROBLEMS_SHOWN: Final = 100
"""In one verify reply: one broken invariant may show in every task."""


def _new_tasks(turn: TurnState, session: Session, heard: Incoming) -> NewTasksReply:
    request = heard.request
    assert isinstance(request, NewTasks)
    outcomes, errors = push.take_batch(turn, request.project, request.tasks, heard.flaws)
    return NewTasksReply(n=request.n, outcomes=outcomes, errors=errors)


def _done(turn: TurnState, session: Session, heard: Incoming) -> DoneReply:
    request = heard.request
    assert isinstance(request, Done)
    return lease_end.finish_batch(turn, session, request, heard.flaws)


def _verify(turn: TurnState, session: Session, heard: Incoming) -> VerifyReply:
    return VerifyReply(n=heard.request.n, problems=check(turn)[:PROBLEMS_SHOWN])


_Handler = Callable[[TurnState, Session, Incoming], AnyReply | None]


def _asked_by(handler: Callable[[TurnState, Session, Any], AnyReply | None]) -> _Handler:
    """A handler that wants to know who asks."""
    return lambda turn, session, heard: handler(turn, session, heard.request)


def _asked_for_change(handler: Callable[[TurnState, change_log.Who, Any], AnyReply | None]) -> _Handler:
    """A handler that has the log tell who asked."""
    return lambda turn, session, heard: handler(turn, change_log.who(session, heard), heard.request)


def _asked(handler: Callable[[TurnState, Any], AnyReply | None]) -> _Handler:
    """A handler to which it is all the same who asks."""
    return lambda turn, session, heard: handler(turn, heard.request)


_HANDLERS: Final[Mapping[type, _Handler]] = {
    NewTasks: _new_tasks,
    Done: _done,
    Verify: _verify,
    Hello: _asked_by(fetchers.hello),
    Extend: _asked_by(fetchers.extend),
    Release: _asked_by(fetchers.release),
    Status: _asked(project_requests.status),
    Fetchers: _asked(project_requests.fetchers),
    ProjectShow: _asked(project_requests.show_project),
    ProjectSet: _asked_for_change(project_requests.set_project),
    ProjectUnset: _asked_for_change(project_requests.unset_project),
    ProjectDo: _asked_for_change(project_requests.act_on_project),
    GroupDo: _asked_for_change(operations.begin_group),
    ProjectWait: _asked_by(completion.wait),
    ProjectHold: _asked_by(completion.hold),
    Stats: _asked(project_requests.stats),
    StatsHistory: _asked_by(event_history.show),
    Why: _asked(why.why),
    TaskList: _asked(task_list.list_tasks),
    Failures: _asked_by(failure_counts.begin),
    Bulk: _asked_for_change(operations.begin),
    OperationShow: _asked_by(operations.show),
    OperationList: _asked(operations.list_all),
    Log: _asked(change_log.show),
    TaskShow: _asked(project_requests.show_task),
    TaskRetry: _asked_for_change(project_requests.retry_tasks),
    TaskCancel: _asked_for_change(project_requests.cancel_tasks),
}
