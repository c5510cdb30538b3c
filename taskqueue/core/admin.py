"""What people ask for: the state of things, settings, projects, single tasks."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from taskqueue.core.intake import cancel
from taskqueue.core.kept import SpecRef
from taskqueue.core.messages import Now
from taskqueue.core.project import Project
from taskqueue.core.replies import Counts, ProjectReply, StatusReply, TaskReply, TasksReply, Totals
from taskqueue.core.requests import (
    ProjectDo,
    ProjectSet,
    ProjectShow,
    ProjectUnset,
    Status,
    TaskCancel,
    TaskRetry,
    TaskShow,
)
from taskqueue.core.state import State
from taskqueue.core.task import (
    CANCELLED,
    DELAYED,
    FAILED,
    NO_TOKEN,
    PROCESSING,
    READY,
    STATE_NAMES,
    SUCCESS,
    Task,
    key_time,
)
from taskqueue.errors import Rejected

MAX_FETCHERS_SHOWN = 1000
"""In one status reply."""


def status(state: State, now: Now, message: Status) -> StatusReply:
    """The whole in numbers, and a page of projects."""
    names = sorted(name for name in state.projects if name > message.after)
    page = [state.projects[name] for name in names[: message.limit]]
    fetchers = (session for session in state.sessions.values() if session.capacity or session.leases)
    return StatusReply(
        n=message.n,
        epoch=state.epoch,
        version=state.config.version,
        uptime_seconds=0.0,
        counts=_sum_counts(state),
        totals=_sum_totals(state),
        projects=[project.view(now.boot) for project in page],
        more=len(names) > message.limit,
        fetchers=[session.view(now.boot) for session in islice(fetchers, MAX_FETCHERS_SHOWN)],
    )


def show_project(state: State, now: Now, message: ProjectShow) -> ProjectReply:
    """One project."""
    return ProjectReply(n=message.n, project=state.project(message.project).view(now.boot))


def set_project(state: State, now: Now, message: ProjectSet) -> ProjectReply:
    """Override settings of a project; nothing changes if one of them doesn't fit."""
    project = state.projects.get(message.project)
    state.check_settings(message.project, {**(project.overrides if project else {}), **message.settings})
    if project is None:
        project = state.make_project(message.project, now)
    project.apply(project.layers, {**project.overrides, **message.settings}, now.boot)
    state.touch(project)
    return ProjectReply(n=message.n, project=project.view(now.boot))


def unset_project(state: State, now: Now, message: ProjectUnset) -> ProjectReply:
    """Forget overrides."""
    project = state.project(message.project)
    unknown = [key for key in message.keys if key not in project.overrides]
    if unknown:
        raise Rejected("setting", f'{unknown[0]}: project "{project.name}" does not override it')
    gone = message.keys or list(project.overrides)
    kept = {key: value for key, value in project.overrides.items() if key not in gone}
    project.apply(project.layers, kept, now.boot)
    state.touch(project)
    return ProjectReply(n=message.n, project=project.view(now.boot))


def act_on_project(state: State, now: Now, message: ProjectDo) -> ProjectReply:
    """Pause, resume, stop, start or delete."""
    if message.action == "start" and message.project not in state.projects:
        state.make_project(message.project, now)
    project = state.project(message.project)
    if message.action == "delete":
        _delete(state, project)
        return ProjectReply(n=message.n, project=None)
    project.act(message.action)
    state.touch(project)
    return ProjectReply(n=message.n, project=project.view(now.boot))


def show_task(state: State, now: Now, message: TaskShow) -> TaskReply:
    """One task with its body."""
    project = state.project(message.project)
    task = project.queue.find(project.number, message.taskid)
    if task is None:
        raise Rejected("unknown-task", f'taskid: "{message.taskid}" is unknown in project "{project.name}"')
    looked_up = state.changes.beyond(project.number, message.taskid)
    spec = task.spec or state.spec_of(looked_up or task)
    reply = TaskReply(
        n=message.n,
        project=project.name,
        taskid=task.taskid,
        url=spec.url,
        state=STATE_NAMES[task.state],
        schedule=spec.schedule,
        priority=task.priority,
        retried=task.retried,
        lastcrawltime=task.lastcrawltime,
        body=spec.body,
    )
    _tell_state(state, now, task, reply)
    return reply


def retry_tasks(state: State, now: Now, message: TaskRetry) -> TasksReply:
    """Make tasks ready now, with all their retries."""
    return _change_each(state, message, (READY, PROCESSING), lambda project, task: _retry(state, project, task))


def cancel_tasks(state: State, now: Now, message: TaskCancel) -> TasksReply:
    """End tasks that are not over."""
    over = (SUCCESS, FAILED, CANCELLED)
    return _change_each(state, message, over, lambda project, task: cancel(state, now, project, task))


def _change_each(
    state: State,
    message: TaskRetry | TaskCancel,
    ignored: tuple[int, ...],
    change: Callable[[Project, Task], None],
) -> TasksReply:
    """Change the tasks that the message names, but for those in a state in which there is nothing to change."""
    project = state.project(message.project)
    reply = TasksReply(n=message.n, outcomes=[])
    for taskid in message.taskids:
        task = project.queue.find(project.number, taskid)
        if task is None:
            reply.outcomes.append("unknown")
        elif task.state in ignored:
            reply.outcomes.append("ignored")
        else:
            change(project, task)
            reply.outcomes.append("done")
    return reply


def _retry(state: State, project: Project, task: Task) -> None:
    task.retried = 0
    task.token = NO_TOKEN
    task.held_back = task.timed_out = False
    project.queue.put_ready(task)
    state.touch(project)
    if task.taskid in project.queue.tasks:
        state.want(task)


def _delete(state: State, project: Project) -> None:
    for task in list(project.queue.processing.leased.values()):
        state.unlease(task)
    state.remove_project(project)


def _tell_state(state: State, now: Now, task: Task, reply: TaskReply) -> None:
    if task.state == DELAYED:
        reply.exetime = task.exetime
    elif task.lease is not None:
        reply.lease_seconds = max(0.0, task.lease.deadline - now.boot)
        reply.session = task.lease.session
    elif task.state in (FAILED, SUCCESS, CANCELLED):
        reply.finished_at = key_time(task.key)
    if task.state != SUCCESS:
        ref = SpecRef(task.project, task.seq)
        reply.error = state.changes.kept.errors.get(ref) or state.changes.found.errors.get(ref, "")


def _sum_counts(state: State) -> Counts:
    columns = zip(*(project.queue.counts[1:] for project in state.projects.values()), strict=True)
    return Counts(*(sum(column) for column in columns))


def _sum_totals(state: State) -> Totals:
    total = Totals()
    for project in state.projects.values():
        for name in Totals.__struct_fields__:
            setattr(total, name, getattr(total, name) + getattr(project.totals, name))
    return total
