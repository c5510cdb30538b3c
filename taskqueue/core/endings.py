"""How a lease ends: done, failed, run out, or given back.

    processing ──ok──────────────────► success        (recurring: delayed until its age has passed)
               ──not ok, run out─────► ready, delayed or failed: see ``retry``
               ──released, lost──────► ready, no retry used up

An answer counts if and only if its token is that of the task, which it uses up: a second answer is stale. Running out
of time leaves the token, so a late success counts if nobody else has been given the task; a late failure changes
nothing.
"""

from __future__ import annotations

from taskqueue.core.intake import apply_deferred, take_batch
from taskqueue.core.kept import SpecRef
from taskqueue.core.messages import Finished, NewTask, Now
from taskqueue.core.project import Project
from taskqueue.core.replies import DoneOutcome, DoneReply, ItemError, NewOutcome
from taskqueue.core.requests import Done, Flaws
from taskqueue.core.retry import Retry, after_failure, after_timeout, recurring
from taskqueue.core.state import State
from taskqueue.core.task import DELAYED, FAILED, NO_TOKEN, PROCESSING, READY, SUCCESS, Task


def finish_batch(state: State, now: Now, request: Done, flaws: Flaws) -> DoneReply:
    """Take in a batch of answers, each on its own merits, with the new tasks that came out of them."""
    reply = DoneReply(n=request.n, outcomes=[])
    has_new = any(item is not None and item.new for item in request.tasks)
    for index, item in enumerate(request.tasks):
        new: list[NewOutcome] = []
        if item is None:
            reply.outcomes.append("rejected")
            reply.errors.append(ItemError(index, flaws.get((index,), "expected a map, got nil")))
        else:
            reply.outcomes.append(finish(state, now, item))
            if item.new and reply.outcomes[-1] == "done":
                new, errors = take_batch(state, now, item.project, item.new, flaws, (index,))
                reply.errors += errors
        if has_new:
            reply.new.append(new)
    return reply


def finish(state: State, now: Now, item: Finished) -> DoneOutcome:
    """Take in what a fetcher says of a task that it was given."""
    project = state.projects.get(item.project)
    task = project.queue.find(project.number, item.taskid) if project else None
    if project is None or task is None or not item.token or task.token != item.token:
        return "stale"
    if task.state == PROCESSING:
        _end(state, now, project, task, item)
    elif item.ok and (task.state == READY or task.state == DELAYED):
        state.touch(project)
        _succeed(state, now, project, task)
    else:
        return "stale"
    task.token = NO_TOKEN
    return "done"


def expire(state: State, now: Now, project: Project, task: Task) -> None:
    """The task's lease has run out: a failure with the reason ``timeout``."""
    schedule = state.spec_of(task).schedule
    retry = after_timeout(schedule, project.settings, task.retried, timed_out=task.timed_out)
    deferred = _unlease(state, project, task)
    task.timed_out = True
    project.totals.timeout += 1
    _retry(state, now, project, task, retry, "timeout")
    if deferred is not None:
        apply_deferred(state, now, project, task, deferred)


def give_back(state: State, now: Now, project: Project, task: Task) -> None:
    """The task was not run: it is ready again, first among its equals, and no retry is used up."""
    deferred = _unlease(state, project, task)
    project.queue.put_ready(task)
    state.want(task)
    if deferred is not None:
        apply_deferred(state, now, project, task, deferred)


def _end(state: State, now: Now, project: Project, task: Task, item: Finished) -> None:
    deferred = _unlease(state, project, task)
    if item.ok:
        _succeed(state, now, project, task)
    else:
        _fail(state, now, project, task, item)
    if deferred is not None:
        apply_deferred(state, now, project, task, deferred)


def _unlease(state: State, project: Project, task: Task) -> NewTask | None:
    """Take the lease from its fetcher; what was deferred until its end is for the caller to apply."""
    deferred = task.lease.deferred if task.lease else None
    state.unlease(task)
    state.touch(project)
    return deferred


def _succeed(state: State, now: Now, project: Project, task: Task) -> None:
    schedule = state.spec_of(task).schedule
    task.retried = 0
    task.timed_out = False
    task.lastcrawltime = now.wall
    project.totals.success += 1
    if recurring(schedule) and schedule.age is not None:
        _note_error(state, task, "")
        _hold_back(project, task, now.wall + schedule.age)
    else:
        project.queue.finish(task, SUCCESS, now.wall)


def _fail(state: State, now: Now, project: Project, task: Task, item: Finished) -> None:
    task.timed_out = False
    if not item.retry:
        retry = None
    elif item.retry_after is not None:
        retry = Retry(item.retry_after, False)
    else:
        retry = after_failure(state.spec_of(task).schedule, project.settings, task.retried)
    _retry(state, now, project, task, retry, item.error)


def _retry(state: State, now: Now, project: Project, task: Task, retry: Retry | None, error: str) -> None:
    task.lastcrawltime = now.wall
    _note_error(state, task, error)
    if retry is None:
        project.totals.failed += 1
        project.queue.finish(task, FAILED, now.wall)
        return
    project.totals.retried += 1
    task.retried += retry.counts
    if retry.delay:
        _hold_back(project, task, now.wall + retry.delay)
    else:
        project.queue.put_ready(task)


def _note_error(state: State, task: Task, error: str) -> None:
    """Keep why its last attempt failed, over the reason of the one before; empty if there is no reason."""
    state.changes.kept.errors[SpecRef(task.project, task.seq)] = error


def _hold_back(project: Project, task: Task, until: float) -> None:
    task.held_back = True
    project.queue.put_delayed(task, until)
