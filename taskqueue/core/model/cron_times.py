"""Next times of a project's cron jobs; ``cron`` runs them.

1. A new or changed job waits for its first time after now.
2. After a start, a job that missed a time waits for its next one, or (``missed = "once"``) is due at once.
3. A start within MISSED_SECONDS after a time has not missed it: a crash just then must not cost a night's run.
4. ``every`` means multiples since 1970 in UTC, so a restart shifts nothing.
5. When the wall clock has been put back, jobs are planned anew (``clock_step``): times that it shows again count again,
   and no job is silent until the clock is where it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Final

from taskqueue.core.model.now import Now
from taskqueue.core.model.project import Project
from taskqueue.core.model.records import CronRecord
from taskqueue.protocol.fields import Wall
from taskqueue.settings.environment import Environment
from taskqueue.settings.jobs import CronJob
from taskqueue.units import parse_duration

MISSED_SECONDS: Final = 60.0


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
        project.ticks[name] = next_run(job, environment, now.wall)


def resume(project: Project, environment: Environment, now: Now) -> bool:
    """Plan the jobs of a project that has just been loaded; return whether its record has changed."""
    jobs, known = project.settings.cron, list(project.cron)
    for name, job in jobs.items():
        record = project.cron.get(name)
        if record is not None:
            project.ticks[name] = next_run(job, environment, _heeded_until(job, record, now.wall))
    plan(project, environment, now, jobs)
    return list(project.cron) != known


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


def next_at(project: Project) -> float:
    """Return when the first of the project's jobs is due (unix seconds); inf if never."""
    return min(project.ticks.values(), default=inf)


def _heeded_until(job: CronJob, record: CronRecord, now: Wall) -> float:
    """Return the time (unix seconds) up to which no run counts as missed."""
    since = record.last_at if job.missed == "once" else max(record.last_at, now - MISSED_SECONDS)
    return min(since, now)
