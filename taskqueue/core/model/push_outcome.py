"""Outcome of a new-task, by the present state of the task: one decision table, a pure function.

    the task is                 plain                    force_update      cancel and force_update
    unknown                     new                      new               ignored
    ready, delayed, blocked     merged or ignored        replaced          cancelled
    processing                  ignored                  deferred          cancelled
    finished                    restarted or ignored     restarted         cancelled

``cancel`` without ``force_update`` is ignored. So is any ``cancel`` of a task that is cancelled already, or bare: only
the outcome of that is known. ``merges`` and ``restarts`` say when a plain new-task merges or restarts.
"""

from __future__ import annotations

from taskqueue.core.model.recrawl_interval import good_for
from taskqueue.core.model.task import BLOCKED, CANCELLED, DELAYED, PROCESSING, WAITING, Task, is_held
from taskqueue.protocol.choices import PushOutcome
from taskqueue.protocol.fields import Wall
from taskqueue.protocol.values import Schedule


def decide(task: Task | None, schedule: Schedule, now: Wall) -> PushOutcome:
    """Return the outcome of a well-formed new-task of a known project; ``now`` in unix seconds."""
    if schedule.cancel:
        return _decide_cancel(task, schedule)
    if task is None:
        return "new"
    if task.state == PROCESSING:
        return "deferred" if schedule.force_update else "ignored"
    if task.state in WAITING:
        if schedule.force_update:
            return "replaced"
        return "merged" if merges(task, schedule, now) else "ignored"
    return "restarted" if restarts(task, schedule, now) else "ignored"


def due_at(schedule: Schedule, now: Wall) -> float:
    """Return when the task may first run, in unix seconds; 0 for at once."""
    at = schedule.exetime if schedule.delay is None else now + schedule.delay
    return at if at > now else 0.0


def merges(task: Task, schedule: Schedule, now: Wall) -> bool:
    """Return whether a link changes a waiting task: raises its priority, or brings forward a merely scheduled one."""
    if schedule.priority > task.priority:
        return True
    return hurries(task, schedule, now)


def hurries(task: Task, schedule: Schedule, now: Wall) -> bool:
    """Return whether the message brings forward a waiting task that no retry, recrawl or rerun delays.

    Pages link to each other all the time: if a link cancelled a back-off, each failing page would be hammered.
    """
    if task.state not in (DELAYED, BLOCKED) or task.held_back or is_held(task):
        return False
    return due_at(schedule, now) < task.exetime


def restarts(task: Task, schedule: Schedule, now: Wall) -> bool:
    """Return whether a finished task runs again: forced, with a new itag, or because its age has passed."""
    if schedule.force_update:
        return True
    if schedule.itag and schedule.itag != task.itag:
        return True
    age = good_for(schedule)
    return age is not None and task.lastcrawltime + age < now


def _decide_cancel(task: Task | None, schedule: Schedule) -> PushOutcome:
    if task is None or not schedule.force_update or task.state == CANCELLED or task.bare:
        return "ignored"
    return "cancelled"
