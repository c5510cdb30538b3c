"""Adaptation to a wall clock that is put back: times that were set by the old time are set by the new one.

Times that the clock shows again count again, so that no cron entry is silent, no project shut or kept open, until the

    cron entries         are planned anew, from the turn before on, as if the clock had been right then
    active hours         are looked up anew
    automatic pauses     last no longer than ``pause_time`` from now
    pauses for a time    keep the seconds that they have left
    open projects        (``project-hold``) keep theirs, too

A step forward needs no adaptation: times that it leaps over are due. Tasks keep their times, which their producers
may have set.
"""

from __future__ import annotations

from math import inf
from typing import Final

from taskqueue.core.model.cron_times import plan_anew
from taskqueue.core.model.now import Now
from taskqueue.core.model.project import Project
from taskqueue.core.moves.projects import note_pause
from taskqueue.core.turn_state import TurnState

STEP_SECONDS: Final = 60.0
"""Seconds by which the wall clock must lag behind the boot clock, between two turns, to count as put back."""


def put_back(before: Now, now: Now) -> float:
    """Return the seconds by which the wall clock has been put back since the previous turn; 0 if it has not."""
    lag = (now.boot - before.boot) - (now.wall - before.wall)
    return lag if lag > STEP_SECONDS else 0.0


def follow(turn: TurnState) -> None:
    """Adapt to a wall clock that has been put back; only then it costs a pass over every project and cron entry."""
    state, now = turn.state, turn.now
    before, state.last_now = state.last_now, now
    if now.wall < before.wall:
        state.pending.begin("history")
        _go_on_with_what_was_due(turn, before)
    if step := put_back(before, now):
        for project in state.projects.by_name.values():
            _follow(turn, project, now.wall - (now.boot - before.boot), -step)


def _go_on_with_what_was_due(turn: TurnState, before: Now) -> None:
    """Offer projects again that dispatched nothing because of due tasks, if these are no longer due."""
    for project in turn.state.projects.by_name.values():
        if project.queue.is_behind(before.wall) and not project.queue.is_behind(turn.now.wall):
            turn.touch(project)


def _follow(turn: TurnState, project: Project, after: float, step: float) -> None:
    state = turn.state
    plan_anew(project, state.environment, after)
    state.plan_cron(project)
    is_shifted = _shift_holds(project, step) | project.shift_pause(step)
    if _set_hours(turn, project) | project.cap_wait(turn.now.wall) | is_shifted:
        turn.touch(project)
    note_pause(state, project)
    state.wall_timers.note(("project_hold", project.number), min(project.holds.values(), default=inf))


def _set_hours(turn: TurnState, project: Project) -> bool:
    """Compute the project's active hours again; return whether they have changed."""
    before, project.hours = project.hours, turn.state.environment.hours(project.settings.active, turn.now.wall)
    return project.hours != before


def _shift_holds(project: Project, step: float) -> bool:
    project.holds = {session: until + step for session, until in project.holds.items()}
    return bool(project.holds)
