"""Count of tasks that wait for a retry, for projects whose record lacks it: a page a turn.

    keys of delayed tasks   smallest ── counted ──► ) counted_to [ ── not yet ──► largest

The count is missing in old stores, and in projects with a damaged delayed task. A page shows the store before the turn,
so it is counted before the turn changes anything. From then on, tasks that enter or leave the counted part of the order
are counted, too. After a restart the count begins again.
"""

from __future__ import annotations

from typing import Final

from taskqueue.core.model.needs import ListRef, Needs
from taskqueue.core.model.task import DELAYED, NO_FLOOR
from taskqueue.core.turn_state import TurnState

COUNTED_TASKS = 256
"""Tasks counted in a turn, at most."""

COUNTED_BYTES: Final = 1 << 20
"""Bytes read in a turn, at most: URLs and bodies are read with the tasks, and large ones end a page early."""


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
    """Ask for another turn if there are more pages to count."""
    turn.more |= bool(turn.state.pending.uncounted)


def step(turn: TurnState, ref: ListRef) -> None:
    """Count the tasks that were looked up, before the turn changes them."""
    project, page = turn.state.projects.by_number[ref.project], turn.found.lists[ref]
    project.queue.count_page(page.tasks, NO_FLOOR if page.next is None else page.next)
    if page.next is None:
        turn.state.pending.was_counted(project.number)
        turn.touch(project)
