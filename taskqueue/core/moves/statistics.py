"""Counters of projects: updated at the end of a turn, passed on to the history of events, and saved now and then.

Windows are saved at most once in SAVE_SECONDS, each project's at its own second, so that ten thousand of
them are not written at once. Totals are in the project's record, so in each batch of a turn that changed it.
"""

from __future__ import annotations

from math import inf
from typing import Final

from taskqueue.core.model.project import Project
from taskqueue.core.turn_state import TurnState

SAVE_SECONDS: Final = 60


def note(turn: TurnState, project: Project) -> None:
    """Update the counters of a project that the turn changed."""
    state, now = turn.state, turn.now
    project.note_ready(now.boot)
    counted = project.totals.row()
    state.grand_totals.note(project, counted)
    counters = project.counters
    failed, before = counters.failed, counters.counted
    if counters.note(counted, now.wall):
        if project.number not in state.history.moved:
            state.history.note(project.number, before, now.wall)
        _plan_save(turn, project)
        if counters.failed > failed:
            _look_for_burst(turn, project, counters.failed - failed)


def save(turn: TurnState, project: Project) -> None:
    """Save the windows, if they may have changed since they were last saved."""
    if project.save_at != inf:
        project.save_at = inf
        turn.changes.writes.counters[project.number] = project.counters.saved()


def _plan_save(turn: TurnState, project: Project) -> None:
    now = turn.now
    if project.save_at == inf:
        project.save_at = now.boot + SAVE_SECONDS - (now.boot - project.number) % SAVE_SECONDS
        turn.state.boot_timers.note(("counters", project.number), project.save_at)


def _look_for_burst(turn: TurnState, project: Project, failed: int) -> None:
    """Emit an event when many attempts fail; again only after they have fallen below half of the limit.

    Between two failures they can only become fewer, so it is enough to look when an attempt has failed, at how many
    there were before.

    Args:
        failed: attempts that failed in this turn.
    """
    limit = project.settings.error_burst
    failing = project.counters.failing(turn.now.wall)
    if failing - failed < limit / 2:
        project.bursting = False
    if not project.bursting and failing >= limit:
        project.bursting = True
        turn.emit("error-burst", project, f"{failing} attempts have failed within five minutes")
