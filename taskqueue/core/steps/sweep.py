"""Sweep after ``clear``: delete the records, by taskid and by seq, of tasks that were dropped.

    clear ──► project to sweep ──page──► page ──► … ──► nothing is left: ``Project.cleared`` is 0

Rules:
1. A step and its progress (``Project.swept_to``) are one commit, so a restart continues there.
2. A project that is cleared again is swept from the start, once.
3. SWEPT_AT_ONCE projects share the tasks of a turn; others take later turns.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from taskqueue.core.model.needs import FoundPage, Needs, PageRef
from taskqueue.core.model.project import Project
from taskqueue.core.model.task import LIVE
from taskqueue.core.turn_state import TurnState

SWEPT_TASKS = 256
"""Tasks scanned in a turn, at most."""

SWEPT_AT_ONCE: Final = 8


def need(turn: TurnState, wanted: Needs) -> None:
    """Look up the next pages of the projects whose turn it is."""
    state = turn.state
    some = dict(islice(state.pending.swept.items(), SWEPT_AT_ONCE))
    for number, bound in some.items():
        limit = max(1, min(SWEPT_TASKS, state.config.turn_tasks) // len(some))
        ref = PageRef(number, state.projects.by_number[number].swept_to, limit, whole=False, errors=False)
        turn.due.sweeping[number] = bound, ref
        wanted.pages.append(ref)


def step(turn: TurnState) -> None:
    """Delete the cleared tasks on the pages that were looked up."""
    state = turn.state
    for number, (bound, ref) in turn.due.sweeping.items():
        # It may have been cleared again or deleted in this turn.
        if state.pending.swept.get(number) == bound:
            _take_page(turn, state.projects.by_number[number], turn.found.pages[ref])
    turn.more |= bool(state.pending.swept)


def _take_page(turn: TurnState, project: Project, page: FoundPage) -> None:
    state = turn.state
    for task in page.tasks:
        is_left = task.state in LIVE and task.seq <= project.cleared
        if is_left and turn.find(project, task.taskid) is None:
            turn.changes.writes.forgotten.append(task)
            turn.changes.forget_links(task)
            turn.changes.note_end(task, "failed")
    turn.touch(project)
    if page.end:
        project.cleared, project.swept_to = 0, ""
        state.pending.was_swept(project.number)
    else:
        project.swept_to = page.last
        state.pending.go_on_sweeping(project.number)
