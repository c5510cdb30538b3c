"""Next ticks of a project's cron entries; ``cron`` runs them.

1. A new or changed entry waits for its first tick after now, also across a restart.
2. After a start, an entry that missed a tick waits for its next one, or (``missed = "once"``) is due at once.
3. A start within MISSED_SECONDS after a tick has not missed it: a crash just then must not cost a night's crawl.
4. ``every`` means multiples since 1970 in UTC, so a restart shifts nothing.
5. When the wall clock has been put back, entries are planned anew (``clock_step``): ticks that it shows again count
   again, and no entry is silent until the clock is where it was.
6. A tick that waits for the end of an earlier flow is due when that has ended. A changed entry has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Final, NamedTuple

from taskqueue.core.model.flow import FlowTable
from taskqueue.core.model.now import Now
from taskqueue.core.model.project import Project
from taskqueue.protocol.fields import Wall
from taskqueue.protocol.values import CronRecord, NewTask
from taskqueue.settings.environment import Environment
from taskqueue.settings.own_tasks import CronEntry, Template
from taskqueue.texts.units import parse_duration

MISSED_SECONDS: Final = 60.0


class DueTick(NamedTuple):
    """Tick of a cron entry that a turn runs.

    Attributes:
        name: name of the entry.
        at: unix seconds of the tick.
        task: task that the entry pushes if it has no graph.
        tasks: tasks of the entry's graph, parents first; empty if it has none.
        has_waited: True if it has waited for the end of an earlier flow.
    """

    name: str
    entry: CronEntry
    at: float
    task: Template
    tasks: tuple[NewTask, ...]
    has_waited: bool


def plan(project: Project, environment: Environment, now: Now, before: Mapping[str, CronEntry]) -> None:
    """Plan the entries of a project whose settings have changed; ``before`` are its former entries."""
    entries = project.settings.cron
    for name in [name for name in project.cron if name not in entries]:
        del project.cron[name]
        project.ticks.pop(name, None)
    for name, entry in entries.items():
        if before.get(name) == entry and name in project.ticks:
            continue
        if name not in project.cron:
            project.cron[name] = CronRecord(now.wall)
        else:
            project.cron[name].changed_at = now.wall
            _stop_waiting(project.cron[name])
        project.ticks[name] = next_tick(entry, environment, now.wall)


def resume(project: Project, environment: Environment, now: Now) -> bool:
    """Plan the entries of a project that has just been loaded; return whether its record has changed."""
    entries, known = project.settings.cron, list(project.cron)
    has_stopped = False
    for name, entry in entries.items():
        record = project.cron.get(name)
        if record is not None:
            project.ticks[name] = next_tick(entry, environment, _not_missed_until(entry, record, now.wall))
            if record.waiting and not (entry.tasks and entry.overlap == "wait"):
                _stop_waiting(record)
                has_stopped = True
    plan(project, environment, now, entries)
    return has_stopped or list(project.cron) != known


def plan_anew(project: Project, environment: Environment, after: float) -> None:
    """Plan all entries of a project for their first ticks after ``after`` (unix seconds)."""
    for name, entry in project.settings.cron.items():
        project.ticks[name] = next_tick(entry, environment, after)


def next_tick(entry: CronEntry, environment: Environment, after: float) -> float:
    """Return the entry's first tick after ``after`` (unix seconds); inf if never."""
    if entry.cron:
        return environment.next_tick(entry.cron, entry.zone, after)
    every = parse_duration(entry.every) or inf
    return (after // every + 1) * every


def next_at(project: Project, flows: FlowTable) -> float:
    """Return when the first of the project's entries is due (unix seconds); inf if never."""
    if any(can_run_waiting(project, flows, name) for name in project.ticks):
        return 0.0
    return min(project.ticks.values(), default=inf)


def can_run_waiting(project: Project, flows: FlowTable, name: str) -> bool:
    """Return whether a tick of the entry has waited for an earlier flow, and need not wait any more."""
    return bool(project.cron[name].waiting) and not flows.running_of_cron(project.number, name)


def _stop_waiting(record: CronRecord) -> None:
    """Skip the ticks that wait."""
    record.skipped += len(record.waiting)
    record.waiting = []


def _not_missed_until(entry: CronEntry, record: CronRecord, now: Wall) -> float:
    """Return the time (unix seconds) up to which no tick counts as missed."""
    since = max(record.last_at, record.changed_at)
    return min(since if entry.missed == "once" else max(since, now - MISSED_SECONDS), now)
