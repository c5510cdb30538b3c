"""Counts the tasks that wait for a retry, where the store does not say how many do: a page of them a turn.

    keys of delayed tasks   smallest ── counted ──► ) counted_to [ ── not yet ──► largest

The store does not say it of projects from before these tasks were counted, and of those of which a delayed task was
damaged. A page is as old as the turn is when it begins, so it is counted before the turn changes anything. From then on
what enters or leaves its part of the order is counted, too. After a restart the count begins again.
"""

from __future__ import annotations

from typing import Final

from taskqueue.core.model.needs import ListRef, Needs
from taskqueue.core.model.task import DELAYED, NO_FLOOR
from taskqueue.core.turn_state import TurnState

COUNTED_TASKS = 256
"""Tasks counted in a turn."""

COUNTED_BYTES: Final = 1 << 20
"""Their urls and bodies are read along with them: a page ends early if these are large."""


def need(turn: TurnState, wanted: Needs) -> None:
    """Look up the next delayed tasks of the project whose turn it is."""
    state = turn.state
    number = next(iter(state.pending.uncounted))
    start = state.projects.by_number[number].queue.counted_to
    most = min(COUNTED_TASKS, state.config.turn_tasks)
    ref = ListRef(number, DELAYED, start, NO_FLOOR, False, most, most, COUNTED_BYTES, "", "", False)
    turn.due.uncounted = ref
    wanted.lists.append(ref)


def go_on(turn: TurnState) -> None:
    """Have the next page counted in the next turn, if there is one."""
    turn.more |= bool(turn.state.pending.uncounted)


def step(turn: TurnState, ref: ListRef) -> None:
    """Count the tasks that were looked up, before the turn changes any."""
    project, page = turn.state.projects.by_number[ref.project], turn.found.lists[ref]
    project.queue.count_page(page.tasks, NO_FLOOR if page.next is None else page.next)
    if page.next is None:
        turn.state.pending.was_counted(project.number)
        turn.touch(project)
