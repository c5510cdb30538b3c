"""Next times of a project's cron jobs; ``cron`` runs them.

1. A new or changed job waits for its first time after now, also across a restart.
2. After a start, a job that missed a time waits for its next one, or (``missed = "once"``) is due at once.
3. A start within MISSED_SECONDS after a time has not missed it: a crash just then must not cost a night's run.
4. ``every`` means multiples since 1970 in UTC, so a restart shifts nothing.
5. When the wall clock has been put back, jobs are planned anew (``clock_step``): times that it shows again count again,
   and no job is silent until the clock is where it was.
6. A tick that waits for the end of an earlier flow is due when that has ended. A changed job has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Final, NamedTuple

from taskqueue.core.model.flow import FlowTable
from taskqueue.core.model.now import Now
from taskqueue.core.model.project import Project
from taskqueue.core.model.records import CronRecord
from taskqueue.protocol.fields import Wall
from taskqueue.protocol.values import NewTask
from taskqueue.settings.environment import Environment
from taskqueue.settings.jobs import CronJob
from taskqueue.units import parse_duration

MISSED_SECONDS: Final = 60.0


class DueTick(NamedTuple):
    """Tick of a cron job that a turn runs.

    Attributes:
        name: name of the job.
        at: unix seconds of the tick.
        tasks: tasks of the job's graph, parents first; empty if the job pushes one task.
        has_waited: True if it has waited for the end of an earlier flow.
    """

    name: str
    job: CronJob
    at: float
    tasks: tuple[NewTask, ...]
    has_waited: bool


def plan(project: Project, environment: Environment, now: Now, before: Mapping[str, CronJob]) -> None:
    """Plan the jobs of a project whose settings have changed; ``before`` are its former jobs."""
    jobs = project.settings.cron
    for name in [name for name in project.cron if name not in jobs]:
        del project.cron[name]
        project.ticks.pop(name, None)
    for name, job in jobs.items():
        if before.get(name) == job and name in project.ticks:
            continue
        if name not in project.cron:
            project.cron[name] = CronRecord(now.wall)
        else:
            project.cron[name].changed_at = now.wall
            _stop_waiting(project.cron[name])
        project.ticks[name] = next_run(job, environment, now.wall)


def resume(project: Project, environment: Environment, now: Now) -> bool:
    """Plan the jobs of a project that has just been loaded; return whether its record has changed."""
    jobs, known = project.settings.cron, list(project.cron)
    has_stopped = False
    for name, job in jobs.items():
        record = project.cron.get(name)
        if record is not None:
            project.ticks[name] = next_run(job, environment, _heeded_until(job, record, now.wall))
            if record.waiting and not (job.tasks and job.overlap == "wait"):
                _stop_waiting(record)
                has_stopped = True
    plan(project, environment, now, jobs)
    return has_stopped or list(project.cron) != known


def plan_anew(project: Project, environment: Environment, after: float) -> None:
    """Plan all jobs of a project for their first times after ``after`` (unix seconds)."""
    for name, job in project.settings.cron.items():
        project.ticks[name] = next_run(job, environment, after)


def next_run(job: CronJob, environment: Environment, after: float) -> float:
    """Return the job's first time after ``after`` (unix seconds); inf if never."""
    if job.cron:
        return environment.next_run(job.cron, job.zone, after)
    every = parse_duration(job.every) or inf
    return (after // every + 1) * every


def next_at(project: Project, flows: FlowTable) -> float:
    """Return when the first of the project's jobs is due (unix seconds); inf if never."""
    if any(can_run_waiting(project, flows, name) for name in project.ticks):
        return 0.0
    return min(project.ticks.values(), default=inf)


def can_run_waiting(project: Project, flows: FlowTable, name: str) -> bool:
    """Return whether a tick of the job has waited for an earlier flow, and need not wait any more."""
    return bool(project.cron[name].waiting) and not flows.running_of_job(project.number, name)


def _stop_waiting(record: CronRecord) -> None:
    """Skip the ticks that wait."""
    record.skipped += len(record.waiting)
    record.waiting = []


def _heeded_until(job: CronJob, record: CronRecord, now: Wall) -> float:
    """Return the time (unix seconds) up to which no run counts as missed."""
    since = max(record.last_at, record.changed_at)
    return min(since if job.missed == "once" else max(since, now - MISSED_SECONDS), now)
