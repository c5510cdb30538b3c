"""Cron: tasks that the daemon pushes by itself, again and again.

    tick due ──► last run's task still unfinished? ──yes──► skipped, counted
                          │ no
                          └──► pushed with force_update, in the commit that keeps the tick

Rules:
1. After missed runs a job runs once, and then at its next time: a stall never causes a storm.
2. Jobs tick in every state of the project; a stopped project collects at most one task of each.
3. A turn runs about JOBS_A_TURN jobs; if more are due at one moment, the rest runs in the next turn.

The task of the last run is looked up first: ``need`` when the turn begins, ``tick`` when it decides.
"""

from __future__ import annotations

from math import inf
from typing import Final

from taskqueue.core.model.cron_times import next_run
from taskqueue.core.model.edges import TaskRef
from taskqueue.core.model.needs import Needs
from taskqueue.core.model.now import Now
from taskqueue.core.model.project import Project
from taskqueue.core.model.task import LIVE
from taskqueue.core.moves.push import push
from taskqueue.core.turn_state import TurnState
from taskqueue.settings.jobs import TICK, CronJob, Template

JOBS_A_TURN: Final = 64
"""Jobs run in one turn, about: at midnight one job of each of ten thousand projects may be due."""


def need(turn: TurnState, wanted: Needs) -> None:
    """Look up the tasks of due jobs."""
    state, now = turn.state, turn.now
    budget = JOBS_A_TURN
    while budget > 0 and (number := state.cron_timers.pop_due(now.wall)) is not None:
        project = turn.due.ticking[number] = state.projects.by_number[number]
        for name, job in _due(project, now):
            taskids = (project.cron[name].taskid, taskid_of(name, job.task, project.ticks[name]))
            wanted.tasks += [
                TaskRef(number, taskid) for taskid in taskids if taskid and taskid not in project.queue.tasks
            ]
            budget -= 1


def tick(turn: TurnState) -> None:
    """Run the jobs whose tasks were looked up."""
    state = turn.state
    for project in turn.due.ticking.values():
        if project.number in state.projects.by_number:
            for name, job in _due(project, turn.now):
                _run(turn, project, name, job)
            state.plan_cron(project)


def taskid_of(name: str, template: Template, at: float) -> str:
    """Make the taskid of the task that a job pushes at a time."""
    return _filled(template.taskid, at) or f"cron.{name}"


def _due(project: Project, now: Now) -> list[tuple[str, CronJob]]:
    return [(name, job) for name, job in project.settings.cron.items() if project.ticks.get(name, inf) <= now.wall]


def _run(turn: TurnState, project: Project, name: str, job: CronJob) -> None:
    now = turn.now
    at = project.ticks[name]
    record = project.cron[name]
    turn.touch(project)
    turn.state.lateness_seconds.note(now.wall - at)
    if _is_live(turn, project, record.taskid):
        record.skipped += 1
    else:
        record.runs += 1
        record.taskid = taskid_of(name, job.task, at)
        push(turn, project, record.taskid, _filled(job.task.url, at) or f"data:,cron.{name}", job.task)
    record.last_at = now.wall
    project.ticks[name] = next_run(job, turn.state.environment, now.wall)


def _is_live(turn: TurnState, project: Project, taskid: str) -> bool:
    task = turn.find(project, taskid) if taskid else None
    return task is not None and task.state in LIVE


def _filled(text: str, at: float) -> str:
    return text.replace(TICK, str(int(at)))
