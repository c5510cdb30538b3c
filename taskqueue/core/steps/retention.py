"""Retention: drop tasks that finished longer ago than their project keeps them, a page at a time, oldest first.

                                     ┌─ keep.then = remember ──► bare: state, itag, lastcrawltime stay: no URL twice
    finished ──keep.success, …──► old
                                     └─ keep.then = forget ────► unknown

Rules:
1. The lower bound of an order (``retention_keys``) says when its first task is old: a project is woken for that only,
   and reads from there, not across tasks that were dropped before.
2. A step and its new lower bound are one commit, so a restart continues there.
3. Changes of this turn win: a task that it has restarted is live. The settings at the end of the turn decide.
4. OLD_AT_ONCE projects share the OLD_TASKS of a turn; others take later turns.
5. Bare tasks are in no order: ``reset`` and ``delete`` drop them, but ``keep.then = forget`` does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from taskqueue.core.model.edges import TaskRef
from taskqueue.core.model.needs import FoundOld, Needs, Old, OldRef
from taskqueue.core.model.now import Now
from taskqueue.core.model.project import Project
from taskqueue.core.model.retention_keys import NO_ENTRY, old_below
from taskqueue.core.model.task import OVER
from taskqueue.core.turn_state import TurnState

OLD_TASKS = 256
"""Tasks dropped in a turn, at most."""

OLD_AT_ONCE: Final = 8


def need(turn: TurnState, wanted: Needs) -> None:
    """Look up old tasks of the projects whose turn it is."""
    state = turn.state
    turn.due.retiring = list(islice(state.pending.old, OLD_AT_ONCE))
    parts = [ref for number in turn.due.retiring for ref in _old_in(state.projects.by_number[number], turn.now)]
    limit = max(1, min(OLD_TASKS, state.config.turn_tasks) // max(1, len(parts)))
    wanted.old += [ref._replace(limit=limit) for ref in parts]


def step(turn: TurnState) -> None:
    """Drop the tasks that were looked up, and plan the next step."""
    state, found = turn.state, turn.found.old
    ended = _ended(turn) if found else {}
    for page in found.values():
        project = state.projects.by_number.get(page.ref.project)
        if project is not None:
            _drop_page(turn, project, page, ended.get((project.number, page.ref.state), NO_ENTRY))
    for number in turn.due.retiring:
        if number in state.pending.old:
            _plan(turn, state.projects.by_number[number])
    turn.more |= bool(state.pending.old)


def _old_in(project: Project, now: Now) -> Iterator[OldRef]:
    """Yield references to old tasks of the project; the caller sets their limits."""
    for which, keep in zip(OVER, project.keeps, strict=False):  # ``keeps`` is empty, or has all states
        low, end = project.queue.over_low[which], old_below(keep, now.wall)
        if low < end:
            yield OldRef(project.number, which, low, end, 0)


def _plan(turn: TurnState, project: Project) -> None:
    """Continue in a later turn if old tasks are left, else set a timer."""
    state = turn.state
    state.pending.dropped_old(project.number, more=any(_old_in(project, turn.now)))
    state.wall_timers.note(("retention", project.number), project.old_at())


def _ended(turn: TurnState) -> dict[tuple[int, int], int]:
    """Return the lowest keys of tasks that ended in this turn, which no page has, by project and state.

    Undos and imports give tasks the time of an earlier end.
    """
    lows: dict[tuple[int, int], int] = {}
    for task in turn.changes.touched:
        if task.state in OVER:
            place = (task.project, task.state)
            lows[place] = min(task.key, lows.get(place, NO_ENTRY))
    return lows


def _drop_page(turn: TurnState, project: Project, page: FoundOld, low: int) -> None:
    """Drop the old tasks of a page; ``low`` is the lowest key of those that ended in this turn."""
    now = turn.now
    which = page.ref.state
    end = old_below(project.keeps[OVER.index(which)], now.wall) if project.keeps else 0
    kept = next((old.task.key for old in page.tasks if old.task.key >= end or _is_linked(turn, old)), page.next)
    project.queue.set_over_low(which, low if kept is None else min(low, kept))
    turn.touch(project)
    for old in page.tasks:
        if old.task.key < end and _is_as_read(turn, project, old):
            _drop(turn, project, old)


def _is_as_read(turn: TurnState, project: Project, old: Old) -> bool:
    """Whether this turn has left the task unchanged."""
    ref = TaskRef(project.number, old.task.taskid)
    task = turn.find(project, ref.taskid)
    return (task is None or not task.touched) and not _is_linked(turn, old)


def _is_linked(turn: TurnState, old: Old) -> bool:
    """Whether this turn has changed only the task's links: it stays for now, and a later turn drops it."""
    return TaskRef(old.task.project, old.task.taskid) in turn.changes.writes.linked


def _drop(turn: TurnState, project: Project, old: Old) -> None:
    task = old.task
    if project.settings.keep.then == "forget":
        project.queue.counts[task.state] -= 1
        turn.changes.forget_links(task)
    else:
        task.drop_body(turn.now.wall)
    turn.changes.writes.old.append(old)
