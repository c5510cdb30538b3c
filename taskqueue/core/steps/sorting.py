"""Sorting of ready tasks anew, in bounded steps, when a project changes its order to or from ``newest``.

    ``order`` changes ──► what becomes ready gets a place of the new order                 this commit
                          └──► earlier ready tasks are read and placed, best first         step by step

A place of the other order differs in the top bit of its lower half. Within each priority, and each slot, the places of
one order follow each other, so a step leaps over those that are placed already. Nothing waits meanwhile: tasks by
arrival go before those by newest of their priority. A step is one commit, and a restart begins anew at the first place.

It is a file of its own because steps are rows, and have one each.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from taskqueue.core.model.needs import FoundOrder, Needs, OrderRef
from taskqueue.core.model.project import Project
from taskqueue.core.model.task import NEWEST, READY, SEQ_BITS, Task
from taskqueue.core.turn_state import TurnState

SORTED_TASKS = 256
"""Tasks read in a turn, at most."""
SORTED_BYTES: Final = 1 << 20
SORTED_AT_ONCE: Final = 8
"""Projects that share the tasks of a turn, at most."""


def need(turn: TurnState, wanted: Needs) -> None:
    """Look up the next ready tasks of projects that are to be sorted."""
    state = turn.state
    some = list(islice(state.pending.sorting.items(), SORTED_AT_ONCE))
    limit = max(1, min(SORTED_TASKS, state.config.turn_tasks) // max(1, len(some)))
    wanted.orders += [OrderRef(number, READY, start, limit, SORTED_BYTES, True) for number, start in some]


def step(turn: TurnState) -> None:
    """Place the tasks that were looked up."""
    pending = turn.state.pending
    for page in turn.found.orders:
        if not page.ref.to_sort:
            continue
        project = turn.state.projects.by_number.get(page.ref.project)
        # It may have got another order, or have been deleted, in this turn.
        if project is None or pending.sorting.get(project.number) != page.ref.start:
            continue
        for task in page.tasks:
            _place(turn, project, task)
        if page.end:
            project.sort(is_left=False)
            pending.was_sorted(project.number)
        else:
            pending.go_on_sorting(project.number, _start_after(page, newest=project.queue.newest))
        turn.touch(project)
    turn.more |= bool(pending.sorting)


def _place(turn: TurnState, project: Project, task: Task) -> None:
    """Place a task anew, unless it lies by the order of the project, or has changed in this turn."""
    current = turn.find(project, task.taskid) or task
    is_placed = (task.key & NEWEST > 0) == project.queue.newest
    if is_placed or current.state != READY or current.key != task.key or task.seq <= project.cleared:
        return
    project.queue.withdraw(turn.changes, current)
    project.queue.put_ready(turn.changes, current)
    turn.state.want_held(project, current)


def _start_after(page: FoundOrder, *, newest: bool) -> int:
    """Return where the next step begins: behind the placed tasks of a priority if the next task is one of them."""
    following = page.following
    if (following & NEWEST > 0) != newest:
        return following
    priority = following >> SEQ_BITS
    return (priority + 1) << SEQ_BITS if newest else priority << SEQ_BITS | NEWEST
