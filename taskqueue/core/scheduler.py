"""The scheduler: what was heard, and the time, in; what to keep, and what to say, out.

    loaded ──► Scheduler ─┬─ needs(now, heard) ──► what to look up
                          ├─ step(now, heard, found) ──► Turn: what to keep, what to say
                          ├─ next_event_at(now) ──► how long to sleep
                          └─ verify()

One step is one turn:

    1. take in what was found        heads refilled, hollow tasks filled, outcomes of sessions
       push its own tasks            of projects that finished with the turn before, and of cron jobs
    2. answer what was heard         in its order; a repeat is answered from what is kept
    3. keep the appointments         leases that ran out, silent fetchers, tasks that are due
       take a step of an operation    and one of what was cleared, and of what is old
    4. hand out                      fair shares, each project at its pace
    5. settle                        heads trimmed, appointments made, records of what changed

The same state, time, requests and findings give the same turn. Nothing in here reads a clock or talks to anybody;
nothing is undone: when a turn can't be kept, this object is thrown away and loaded again from the store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from taskqueue.core import lookups
from taskqueue.core.admin import change_log, failure_counts, operations, project_requests, task_list, why
from taskqueue.core.admin.invariants import check
from taskqueue.core.parts.events import Event
from taskqueue.core.parts.pseudonyms import derive
from taskqueue.core.projects.session import Session
from taskqueue.core.rules import (
    answer_waiters,
    completion,
    cron,
    disk_full,
    event_history,
    failures,
    fetchers,
    lease_end,
    memory_limits,
    push,
    retention,
    statistics,
    sweep,
)
from taskqueue.core.rules.clock_step import put_back
from taskqueue.core.rules.eligibility import offer
from taskqueue.core.rules.handout import HandOut, call_crowded
from taskqueue.core.settings.environment import Environment
from taskqueue.core.settings.settings import CoreConfig
from taskqueue.core.startup import configure, load
from taskqueue.core.state import State
from taskqueue.core.tasks.needs import Found, Needs
from taskqueue.core.tasks.records import KeptOutcome, Loaded, WriteSet
from taskqueue.core.timers import keep_appointments
from taskqueue.errors import Corrupt, Rejected
from taskqueue.protocol.fields import Now
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


class Turn(Struct):
    """What one turn comes to: one batch to write, then these messages to send, and people to tell."""

    kept: WriteSet
    said: list[Outgoing]
    events: list[Event]


class Scheduler:
    """Decides which task runs next. Made from what the store tells at start.

    Args:
        loaded: everything small that the store has; heads of queues are read when they are needed.
        config: what it is told from outside.
        given: what it may use from outside.
        now: the time of the start.
    """

    def __init__(self, loaded: Loaded, config: CoreConfig, environment: Environment, now: Now) -> None:
        self._state = load(loaded, config, environment, now)

    def needs(self, now: Now, heard: Sequence[Incoming]) -> Needs:
        """What must be looked up before ``step`` with the same requests can decide them."""
        return lookups.needs(self._state, now, heard)

    def step(
        self,
        now: Now,
        heard: Sequence[Incoming],
        found: Found,
        config: CoreConfig | None = None,
        undelivered: Sequence[Outgoing] = (),
        reloaded: Sequence[str] | None = None,
    ) -> Turn:
        """Decide one turn.

        Args:
            now: that of ``needs``; not earlier, on the boot clock, than that of the turn before.
            heard: the requests of this turn, in the order in which they arrived.
            found: the answer to what ``needs`` said of the same requests.
            config: a new one, in force from this turn on; None leaves it as it is.
            undelivered: what the turn before said to fetchers and could not be sent: nobody was there, or nobody reads.
            reloaded: somebody had the config file read again: names of the settings that are others now; None: nobody.

        Raises:
            Corrupt: an invariant is broken; throw this scheduler away.
        """
        state = self._state
        state.changes.begin(found)
        state.said, state.events, state.more = [], [], False
        answer_waiters.begin(state)
        lookups.absorb(state, found)
        completion.finish(state, now)
        cron.tick(state, now)
        # Not before: what was looked up for these is what the settings said until now.
        if config is not None:
            configure(state, config, now)
        if reloaded is not None:
            change_log.note_reload(state, now, reloaded)
        for said in undelivered:
            fetchers.miss(state, now, said)
        for each in heard:
            self._hear(each, now)
        keep_appointments(state, now)
        operations.step(state, now)
        sweep.step(state)
        retention.step(state, now)
        event_history.step(state, now)
        failures.step(state, now)
        failure_counts.step(state)
        self._offer(now)
        HandOut(state, now).run()
        self._settle(now)
        return Turn(state.changes.take(), state.said, state.events)

    def last_words(self) -> WriteSet:
        """What is to be kept before an orderly end: windows that have changed since they were saved, and points."""
        for project in self._state.projects.values():
            statistics.save(self._state, project)
        event_history.write_all(self._state)
        return self._state.changes.take()

    def next_event_at(self, now: Now) -> float:
        """When the next turn is due even if nothing is heard, in boot-clock seconds; inf: never."""
        state = self._state
        if state.more or state.low or state.wanted or put_back(state.before, now):
            return now.boot
        due_in = min(state.wall.next_at(), state.crons.next_at(), state.history.due_at) - now.wall
        return max(now.boot, min(state.boot.next_at(), now.boot + due_in))

    def verify(self) -> None:
        """Check every invariant; costs a look at everything in memory.

        Raises:
            Corrupt: one is broken.
        """
        problems = check(self._state)
        if problems:
            raise Corrupt("; ".join(problems))

    def pseudonym(self, session: str) -> str:
        """What people are shown in place of the session's id."""
        return derive(self._state.secret, session).pseudonym

    # ------------------------------------------------------------------------------------ what is heard

    def _hear(self, heard: Incoming, now: Now) -> None:
        request = heard.request
        session = self._state.session(request.session, now)
        if session.kept_requests is None:
            session.learn(self._kept_outcomes(session))
        if not session.follows(request.n) and (isinstance(request, Hello) or not isinstance(request, READS)):
            self._refuse_jump(session, heard)
            return
        if session.peer != heard.peer and self._state.connections.hear(session, heard.peer):
            self._state.freed[session.id] = session
        session.address = heard.address
        if isinstance(request, READS):
            self._answer(session, self._try(session, heard, now), kept=False)
        elif session.has_done(request.n):
            self._answer(session, self._recall(session, request.n), kept=True)
        elif session.may_do(request.n):
            self._do(session, heard, now)
        else:
            reason = f"n: {request.n} is too old; {session.highest} has been answered"
            self._answer(session, ErrorReply(n=request.n, code="too-old", reason=reason), kept=True)
        if not session.last_hello and session.asked_for_hello != heard.peer:
            self._want_hello(session, heard)

    def _refuse_jump(self, session: Session, heard: Incoming) -> None:
        """Say so to whoever sent it, who need not be the session's own client: that one stays where it was heard."""
        n = heard.request.n
        reason = f"n: {n} is too far after {session.latest}, the last number of this session; choose a new session"
        self._state.said.append(Outgoing(heard.peer, ErrorReply(n=n, code="too-far", reason=reason), False, session.id))

    def _want_hello(self, session: Session, heard: Incoming) -> None:
        """Ask who seems to be a fetcher for a hello, once at each address; producers say none, and need none."""
        if session.leases or isinstance(heard.request, FETCHERS_SAY):
            session.asked_for_hello = heard.peer
            self._state.say(session, HelloWanted(epoch=self._state.epoch), kept=True)

    def _do(self, session: Session, heard: Incoming, now: Now) -> None:
        """Do a request that changes something; its outcome is kept with what it changed."""
        reply = self._try(session, heard, now)
        if reply is not None and not isinstance(reply, ErrorReply) and self._is_kept(reply):
            session.note_done(reply.n)
            self._state.changes.kept.outcomes.append(KeptOutcome(session.id, reply.n, reply))
            self._state.save_session(session, now)
        self._answer(session, reply, kept=True)

    def _is_kept(self, reply: AnyReply) -> bool:
        return self._state.config.has_room or disk_full.is_kept(reply)

    def _recall(self, session: Session, n: int) -> AnyReply:
        """The kept answer to a repeat: of this very turn, or looked up for it."""
        for outcome in self._state.changes.kept.outcomes:
            if (outcome.session, outcome.n) == (session.id, n):
                return outcome.reply
        reply = self._kept_outcomes(session).get(n)
        if reply is None:
            raise Corrupt(f"session {session.label}: the outcome of request {n} was not kept")
        return reply

    def _kept_outcomes(self, session: Session) -> dict[int, AnyReply]:
        return self._state.changes.found.sessions.get(session.id, {})

    def _try(self, session: Session, heard: Incoming, now: Now) -> AnyReply | None:
        try:
            if not self._state.config.has_room:
                disk_full.refuse(heard.request)
            return _HANDLERS[type(heard.request)](self._state, now, session, heard)
        except Rejected as rejected:
            return ErrorReply(n=heard.request.n, code=rejected.code, reason=rejected.reason)

    def _answer(self, session: Session, reply: AnyReply | None, *, kept: bool) -> None:
        """None: it will be answered when there is something to say."""
        if reply is not None:
            self._state.say(session, reply, kept=kept)

    # ------------------------------------------------------------------------------------ the end of a turn

    def _offer(self, now: Now) -> None:
        state = self._state
        if state.connections.crowded:
            call_crowded(state)
        for session in state.freed.values():
            state.fair_queue.weigh(session)
        if state.freed and state.barred:
            barred, state.barred = state.barred, {}
            for project in barred.values():
                offer(state, project, now)
        state.freed.clear()
        for project in state.dirty.values():
            offer(state, project, now)

    def _settle(self, now: Now) -> None:
        state = self._state
        for project in state.dirty.values():
            queue = project.queue
            memory_limits.settle(state, project)
            state.boot.note(("lease", project.number), queue.processing.next_at())
            state.wall.note(("due", project.number), queue.due_at())
            state.wall.note(("old", project.number), project.old_at())
            lookups.note_low(state, project)
            completion.note(state, project, now)
            statistics.note(state, project, now)
            state.changes.kept.projects.append(project.record())
        memory_limits.relieve(state)
        state.more |= bool(state.waits.late)
        operations.list_leases(state)
        state.changes.kept.buckets += [shared.record() for shared in state.drawn.values()]
        state.drawn.clear()
        state.dirty.clear()


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


def _new_tasks(state: State, now: Now, session: Session, heard: Incoming) -> NewTasksReply:
    request = heard.request
    assert isinstance(request, NewTasks)
    outcomes, errors = push.take_batch(state, now, request.project, request.tasks, heard.flaws)
    return NewTasksReply(n=request.n, outcomes=outcomes, errors=errors)


def _done(state: State, now: Now, session: Session, heard: Incoming) -> DoneReply:
    request = heard.request
    assert isinstance(request, Done)
    return lease_end.finish_batch(state, now, session, request, heard.flaws)


def _verify(state: State, now: Now, session: Session, heard: Incoming) -> VerifyReply:
    return VerifyReply(n=heard.request.n, problems=check(state)[:PROBLEMS_SHOWN])


_Handler = Callable[[State, Now, Session, Incoming], AnyReply | None]


def _asked_by(handler: Callable[[State, Now, Session, Any], AnyReply | None]) -> _Handler:
    """A handler that wants to know who asks."""
    return lambda state, now, session, heard: handler(state, now, session, heard.request)


def _asked_for_change(handler: Callable[[State, Now, change_log.Who, Any], AnyReply | None]) -> _Handler:
    """A handler that has the log tell who asked."""
    return lambda state, now, session, heard: handler(state, now, change_log.who(session, heard), heard.request)


def _asked(handler: Callable[[State, Now, Any], AnyReply | None]) -> _Handler:
    """A handler to which it is all the same who asks."""
    return lambda state, now, session, heard: handler(state, now, heard.request)


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
