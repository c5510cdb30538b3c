"""Clearing a project: its live tasks are gone at once, however many there are.

    clear ──► the orders of live tasks dropped, leases revoked, counts zero      this commit
         └──► what is left of these tasks by taskid and by seq                   swept away, step by step: ``sweep``

Rules:
1. What the store has of a live task with a seq up to ``Project.cleared`` was dropped: the task is unknown. A task that
   is over and is made live again meanwhile gets another seq.
2. What is over stays known: no url twice. ``reset`` forgets that, too, by giving the project a new number.
3. Neither finishes the project.
"""

from __future__ import annotations

from math import inf

from taskqueue.core.projects.project import Project
from taskqueue.core.rules import flows, task_waits
from taskqueue.core.rules.push import cancel
from taskqueue.core.rules.registry import add_project, plan_cron, remove_project
from taskqueue.core.tasks.task import LIVE, OVER
from taskqueue.core.turn_state import TurnState


def clear(turn: TurnState, project: Project) -> None:
    """Drop the project's live tasks."""
    project.armed = False
    turn.touch(project)
    if project.division is not None:
        project.division.taken_from = turn.state.next_number()
    if project.queue.live:
        _drop_live(turn, project)
    flows.end_all(turn, project)


def reset(turn: TurnState, project: Project) -> Project:
    """Forget everything that is known of the project's tasks; its settings, its state and its pace stay.

    So do those who wait for its end, and those who hold it open.
    """
    state = turn.state
    fresh = project.anew(project.record(), turn.new_project_number(), turn.now)
    fresh.holds = project.holds
    fresh.take_waiters(project)
    remove_project(turn, project)
    add_project(turn, fresh)
    if fresh.queue.slots is not None:
        fresh.queue.slots.begin()  # nobody knows any more what was handed out just now
    plan_cron(turn, fresh, {})
    state.boot_timers.note(("wait", fresh.number), fresh.next_wait_at())
    state.wall_timers.note(("project_hold", fresh.number), min(fresh.holds.values(), default=inf))
    turn.touch(fresh)
    return fresh


def _drop_live(turn: TurnState, project: Project) -> None:
    state = turn.state
    changes, queue = turn.changes, project.queue
    for task in [task for task in changes.touched if task.project == project.number]:
        # Restarted in this very turn: the store has it as over, where it would still be counted.
        if task.state in LIVE and task.kept_state in OVER:
            cancel(turn, project, task)
    flows.count(turn)
    for task in list(queue.processing.leased.values()):
        turn.revoke(task)
    changes.drop_live(project.number, queue.tasks.values())
    queue.clear()
    project.cleared = state.next_number()
    state.pending.sweep(project.number, project.cleared)
    project.swept_to = ""
    changes.writes.cleared.append(project.number)
    task_waits.drop(turn, project.number)
