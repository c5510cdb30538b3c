"""Completion: the moment at which a project's last unfinished task has ended.

    tasks live ──► armed ──none left at the end of a turn──► finished: event, ``on_finished`` pushed, waiters answered

Rules:
1. The end of the turn counts: a ``done`` and its follow-ups are one.
2. Recurring tasks that have had their first run, and ``on_finished`` itself, are not counted.
3. A project that a producer keeps open does not finish; nor does clearing finish it.
4. The event, its count and the push of ``on_finished`` are one commit, in the next turn, because the task to push is
   looked up first. A crash in between changes nothing: the store knows that the project is armed.
"""

from __future__ import annotations

from math import inf
from typing import Final

from taskqueue.core.model.edges import TaskRef
from taskqueue.core.model.needs import Needs
from taskqueue.core.model.now import Now
from taskqueue.core.model.project import Project
from taskqueue.core.model.session import Session
from taskqueue.core.model.waiters import FOR_EVER, Waiter
from taskqueue.core.moves import answer_waiters
from taskqueue.core.moves.push import push
from taskqueue.core.request_rule import RequestRule, asked_by
from taskqueue.core.state import State
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Rejected
from taskqueue.protocol.fields import Boot
from taskqueue.protocol.projects import ProjectHold, ProjectReply, ProjectWait, Remaining, WaitReply

HOLDS_MOST: Final = 100
"""Sessions that keep one project open, at most; they are in its record, which every turn that touches it writes."""


def note(turn: TurnState, project: Project) -> None:
    """Check, at the end of a turn that touched the project, whether it is finished; drop ended holds.

    Waiters of a project that is neither armed nor kept open are answered.
    """
    state = turn.state
    if project.holds:
        project.holds = {session: until for session, until in project.holds.items() if until > turn.now.wall}
        state.wall_timers.note(("project_hold", project.number), min(project.holds.values(), default=inf))
    if not project.armed:
        project.arm()
    if project.armed and not project.queue.unfinished and not project.holds and not project.is_unrolling:
        state.pending.finish(project)
        turn.more = True
    if not project.armed and not project.holds and len(project.waiters) and project.importing is None:
        answer(turn, project)
    if len(project.early_waiters) and project.is_done_but_retries(turn.now.wall):
        answer(turn, project, is_early=True)


def need(state: State, wanted: Needs) -> None:
    """Look up the tasks that finished projects push."""
    wanted.tasks += [
        TaskRef(project.number, project.finisher)
        for project in state.pending.finishing.values()
        if project.finisher and project.finisher not in project.queue.tasks
    ]


def finish(turn: TurnState) -> None:
    """Complete the projects that finished with the previous turn."""
    state = turn.state
    for project in state.pending.take_finishing():
        if project.number in state.projects.by_number and project.armed and project.is_done(turn.now.wall):
            _finish(turn, project)


def hold(turn: TurnState, session: Session, request: ProjectHold) -> ProjectReply:
    """Keep the project open for the session for ``seconds``; 0 ends that.

    Raises:
        Rejected: the project is unknown, or HOLDS_MOST other sessions keep it open already.
    """
    state, now = turn.state, turn.now
    project = state.projects.named(request.project)
    if request.seconds:
        if len(project.holds) >= HOLDS_MOST and session.id not in project.holds:
            raise Rejected(
                "full", f'project "{project.name}" is kept open by {HOLDS_MOST} sessions already, the most allowed'
            )
        project.holds[session.id] = now.wall + request.seconds
        state.wall_timers.note(("project_hold", project.number), now.wall + request.seconds)
    else:
        project.holds.pop(session.id, None)
    turn.touch(project)
    return ProjectReply(n=request.n, project=project.view(now, state.environment))


def wait(turn: TurnState, session: Session, request: ProjectWait) -> WaitReply | None:
    """Answer at once if the project is finished or the request has no ``seconds``; else add a waiter.

    Raises:
        Rejected: the project is unknown, or too many requests wait already.
    """
    state, now = turn.state, turn.now
    project = state.projects.named(request.project)
    is_early = request.ignore_retries
    if request.seconds and not _is_over(project, now, is_early=is_early):
        waiters = project.early_waiters if is_early else project.waiters
        state.waits.add(waiters, Waiter(session, request.n, now.boot + request.seconds))
        state.boot_timers.note(("wait", project.number), now.boot + request.seconds)
        return None
    return _reply(project, request.n, now, project.remaining(now, state.environment), is_early=is_early)


def answer(turn: TurnState, project: Project, until: Boot = FOR_EVER, *, is_early: bool = False) -> None:
    """Answer the waiters whose limit is at most ``until`` (boot-clock seconds).

    Args:
        is_early: answer waiters that don't wait for retries.
    """
    now = turn.now
    waiters = project.early_waiters if is_early else project.waiters
    if len(waiters):
        remaining = project.remaining(now, turn.state.environment)  # once: ten thousand may wait
        answer_waiters.answer(
            turn, waiters, lambda waiter: _reply(project, waiter.n, now, remaining, is_early=is_early), until
        )


def _is_over(project: Project, now: Now, *, is_early: bool) -> bool:
    if is_early and project.is_done_but_retries(now.wall):
        return True
    return not project.armed and project.is_done(now.wall)


def _reply(project: Project, n: int, now: Now, remaining: Remaining, *, is_early: bool) -> WaitReply:
    return WaitReply(
        n=n,
        finished=_is_over(project, now, is_early=is_early),
        unfinished=project.queue.unfinished,
        times=project.finished,
        remaining=remaining,
    )


def _finish(turn: TurnState, project: Project) -> None:
    project.armed = False
    project.finished += 1
    turn.touch(project)
    totals = project.totals
    turn.emit("finished", project, f"so far {totals.success} succeeded, {totals.failed} failed")
    # At once: later changes of this turn must not make waiters wait for the next end.
    answer(turn, project)
    template = project.settings.on_finished
    if template is not None:
        url = template.url or f"data:,{project.finisher}"
        push(turn, project, project.finisher, url, template)


REQUESTS: Final = (
    RequestRule(ProjectWait, asked_by(wait), keeps=False),
    RequestRule(ProjectHold, asked_by(hold), grows=True),
)
