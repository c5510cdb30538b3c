"""What people ask for: the state of things, settings, projects, single tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from msgspec.structs import astuple

from taskqueue.core.admin import change_log
from taskqueue.core.admin.change_log import Who
from taskqueue.core.admin.pages import of_fetchers, of_projects, of_stats, that_fit
from taskqueue.core.admin.window_views import windows_of
from taskqueue.core.projects.project import Project
from taskqueue.core.rules import clear
from taskqueue.core.rules.push import ENVELOPE_BYTES, UTF8_MOST, cancel, revive
from taskqueue.core.rules.registry import check_settings, make_another, remove_project, use_settings
from taskqueue.core.settings import schema
from taskqueue.core.settings.settings import Settings, overlay
from taskqueue.core.state import State
from taskqueue.core.tasks.attempt import AttemptRecord
from taskqueue.core.tasks.needs import TaskRef
from taskqueue.core.tasks.task import (
    ATTEMPTS_KEPT,
    CANCELLED,
    DELAYED,
    FAILED,
    NO_SPEC,
    PROCESSING,
    READY,
    STATE_NAMES,
    SUCCESS,
    Spec,
    Task,
    key_time,
)
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Rejected
from taskqueue.protocol.fields import Setting
from taskqueue.protocol.replies import FetchersReply, ProjectReply, StatsReply, StatusReply, TaskReply, TasksReply
from taskqueue.protocol.requests import (
    Action,
    Fetchers,
    ProjectDo,
    ProjectSet,
    ProjectShow,
    ProjectUnset,
    Stats,
    Status,
    TaskCancel,
    TaskRetry,
    TaskShow,
)
from taskqueue.protocol.views import Attempt, ConfigLayer, Counts, ProjectStats, Totals

TASKIDS_LOGGED = 5
"""Of the tasks that one request changes."""

ATTEMPT_BYTES = 64
"""Of an attempt in a message, besides its error and its fetcher."""


def status(turn: TurnState, message: Status) -> StatusReply:
    """The whole in numbers, and a page of projects."""
    state, now = turn.state, turn.now
    page = of_projects(turn, message)
    sessions = (session for session in state.sessions.values() if session.capacity or session.leases)
    room = state.config.max_message // 2
    fetchers = that_fit(state, (each.view(now.boot) for each in islice(sessions, message.fetchers)), room)
    projects = that_fit(state, (project.view(now) for project in page.projects), room - ENVELOPE_BYTES)
    return StatusReply(
        n=message.n,
        epoch=state.epoch,
        version=state.config.version,
        uptime_seconds=0.0,
        counts=Counts(*astuple(state.grand_totals.counts())),
        totals=Totals(*astuple(state.grand_totals.totals())),
        projects=projects,
        more=page.more or len(projects) < len(page.projects),
        fetchers=fetchers,
        found=page.found,
        numbers=list(page.numbers[: len(projects)]),
    )


def stats(turn: TurnState, message: Stats) -> StatsReply:
    """A page of what happened."""
    page = of_stats(turn.state, message)
    rows = [
        ProjectStats(project.name, Totals(*astuple(project.totals)), windows_of(project.counters, turn.now.wall))
        for project in page.projects
    ]
    return StatsReply(n=message.n, projects=rows, more=page.more)


def fetchers(turn: TurnState, message: Fetchers) -> FetchersReply:
    """A page of fetchers, and what all that are meant have in sum."""
    state = turn.state
    if message.project:
        state.projects.named(message.project)
    page = of_fetchers(turn, message)
    room = state.config.max_message - ENVELOPE_BYTES
    shown = that_fit(state, (session.view(turn.now.boot) for session in page.sessions), room)
    return FetchersReply(
        n=message.n,
        fetchers=shown,
        more=page.more or len(shown) < len(page.sessions),
        found=len(page.found),
        capacity=sum(session.capacity for session in page.found),
        holds=sum(len(session.leases) for session in page.found),
    )


def show_project(turn: TurnState, message: ProjectShow) -> ProjectReply:
    """One project, and who said its settings."""
    state = turn.state
    project = state.projects.named(message.project)
    view = project.view(turn.now)
    view.configured = _configured(state, project)
    return ProjectReply(n=message.n, project=view)


def _configured(state: State, project: Project) -> dict[str, list[ConfigLayer]]:
    """Where the config says what is in force, or part of a table that is."""
    defaults, own = state.layers(project.name)
    said: dict[str, list[ConfigLayer]] = {}
    for name, value in own.items():
        is_joined = isinstance(value, dict) and isinstance(defaults.get(name), dict)
        said[name] = ["project", "defaults"] if is_joined else ["project"]
    for name in defaults:
        # Whoever shares a bucket has no rate of the defaults.
        if name not in own and not (name == "rate" and project.settings.bucket):
            said[name] = ["defaults"]
    return said


def set_project(turn: TurnState, by: Who, message: ProjectSet) -> ProjectReply:
    """Override settings of a project; nothing changes if one of them doesn't fit."""
    state = turn.state
    project = state.projects.by_name.get(message.project)
    overrides = dict(project.overrides) if project else {}
    overlay(overrides, message.settings)
    check_settings(state, message.project, overrides)
    if project is None:
        project = make_another(turn, message.project, overrides)
    else:
        use_settings(turn, project, project.layers, overrides)
    what = "cron set" if list(message.settings) == ["cron"] else "project set"
    change_log.note(turn, by, what, project=project.name, detail=change_log.settings(message.settings))
    return ProjectReply(n=message.n, project=project.view(turn.now))


def unset_project(turn: TurnState, by: Who, message: ProjectUnset) -> ProjectReply:
    """Forget overrides."""
    project = turn.state.projects.named(message.project)
    kept = dict(project.overrides) if message.keys else {}
    for key in message.keys:
        _unset(project, kept, key)
    use_settings(turn, project, project.layers, kept)
    is_cron = all(key.startswith("cron.") for key in message.keys) and message.keys
    what = "cron remove" if is_cron else "project unset"
    change_log.note(turn, by, what, project=project.name, detail=" ".join(message.keys) or "all")
    return ProjectReply(n=message.n, project=project.view(turn.now))


def act_on_project(turn: TurnState, by: Who, message: ProjectDo) -> ProjectReply:
    """Pause, resume, stop, start, clear, reset or delete."""
    state = turn.state
    is_new = message.action == "start" and message.project not in state.projects.by_name
    if is_new:
        make_another(turn, message.project)
    project = act(turn, by, state.projects.named(message.project), message.action, detail="made" if is_new else "")
    return ProjectReply(n=message.n, project=project.view(turn.now) if project else None)


def act(
    turn: TurnState, by: Who, project: Project, action: Action, *, group: str = "", detail: str = ""
) -> Project | None:
    """Do it, and tell the log; returns the project as it is then, or None: it is no more.

    Raises:
        Rejected: it makes no sense now; nothing has changed.
    """
    count = _lost(project, action)
    after = _act(turn, project, action)
    change_log.note(turn, by, f"project {action}", project=project.name, group=group, count=count, detail=detail)
    return after


def _lost(project: Project, action: Action) -> int:
    """How many tasks the action drops."""
    if action == "clear":
        return project.queue.live
    return project.queue.known if action in ("reset", "delete") else 0


def _act(turn: TurnState, project: Project, action: Action) -> Project | None:
    if action == "delete":
        remove_project(turn, project)
        return None
    if action == "reset":
        return clear.reset(turn, project)
    if action == "clear":
        clear.clear(turn, project)
    else:
        project.act(action)
        turn.touch(project)
    return project


def show_task(turn: TurnState, message: TaskShow) -> TaskReply:
    """One task with its body."""
    state = turn.state
    project = state.projects.named(message.project)
    task = turn.find(project, message.taskid)
    if task is None:
        raise Rejected("unknown-task", f'taskid: "{message.taskid}" is unknown in project "{project.name}"')
    spec = NO_SPEC if task.bare else spec_of(turn, project, task)
    fetcher = state.sessions[task.lease.session].label if task.lease else ""
    room = state.config.max_message - ENVELOPE_BYTES - UTF8_MOST * len(spec.url) - len(spec.body)
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
        depth=spec.depth,
        history=_that_fit(history_of(turn, project, task), room - len(fetcher.encode())),
        fetcher=fetcher,
    )
    _tell_state(turn, task, reply)
    return reply


def spec_of(turn: TurnState, project: Project, task: Task) -> Spec:
    """The spec of a task that was looked up whole for this turn, wherever the task is now."""
    return task.spec or turn.spec_of(turn.changes.beyond.get((project.number, task.taskid)) or task)


def history_of(turn: TurnState, project: Project, task: Task) -> list[AttemptRecord]:
    """The last attempts of a task whose history was looked up for this turn, the newest first; this turn's included."""
    # The store may have the history of a task of that name that is no more.
    looked_up = turn.found.histories.get(TaskRef(project.number, task.taskid), {}) if task.kept_state else {}
    by_slot = dict(looked_up)
    for kept in turn.changes.writes.attempts:
        if (kept.project, kept.taskid) == (project.number, task.taskid):
            by_slot[kept.slot] = kept.attempt
    if task.ended is not None:
        by_slot[(task.attempts - 1) % ATTEMPTS_KEPT] = task.ended
    slots = [(task.attempts - age) % ATTEMPTS_KEPT for age in range(1, ATTEMPTS_KEPT + 1)]
    return [by_slot[slot] for slot in slots if slot in by_slot]


def retry_tasks(turn: TurnState, by: Who, message: TaskRetry) -> TasksReply:
    """Make tasks ready now, with all their retries."""
    reply = _change_each(turn, message, (READY, PROCESSING), lambda project, task: revive(turn, project, task))
    _note_tasks(turn, by, "task retry", message, reply)
    return reply


def cancel_tasks(turn: TurnState, by: Who, message: TaskCancel) -> TasksReply:
    """End tasks that are not over."""
    over = (SUCCESS, FAILED, CANCELLED)
    reply = _change_each(turn, message, over, lambda project, task: cancel(turn, project, task))
    _note_tasks(turn, by, "task cancel", message, reply)
    return reply


def _note_tasks(turn: TurnState, by: Who, what: str, message: TaskRetry | TaskCancel, reply: TasksReply) -> None:
    outcomes = zip(message.taskids, reply.outcomes, strict=True)
    changed = [taskid for taskid, outcome in outcomes if outcome == "done"]
    if changed:
        detail = " ".join(changed[:TASKIDS_LOGGED])
        change_log.note(turn, by, what, project=message.project, count=len(changed), detail=detail)


def _change_each(
    turn: TurnState,
    message: TaskRetry | TaskCancel,
    ignored: tuple[int, ...],
    change: Callable[[Project, Task], None],
) -> TasksReply:
    """Change the tasks that the message names, but for those in a state in which there is nothing to change."""
    project = turn.state.projects.named(message.project)
    reply = TasksReply(n=message.n, outcomes=[])
    for taskid in message.taskids:
        task = turn.find(project, taskid)
        if task is None:
            reply.outcomes.append("unknown")
        elif task.state in ignored:
            reply.outcomes.append("ignored")
        elif task.bare:
            reply.outcomes.append("bare")
        else:
            change(project, task)
            reply.outcomes.append("done")
    return reply


def _unset(project: Project, overrides: dict[str, Setting], key: str) -> None:
    """Take one override out: a setting, or (``cron.JOB``) one key of a table."""
    name, dot, part = key.partition(".")
    table = overrides.get(name)
    if not dot and name in overrides:
        del overrides[name]
    elif isinstance(table, dict) and part in table:
        overrides[name] = {other: value for other, value in table.items() if other != part}
        if not overrides[name]:
            del overrides[name]
    else:
        raise Rejected("setting", _why_kept(project, key))


def _why_kept(project: Project, key: str) -> str:
    """What is wrong with taking back a setting that nobody has said."""
    name, _, part = key.partition(".")
    if name not in Settings.__struct_fields__:
        return schema.unknown("", name, Settings)
    if name != "cron" or not part:
        return f'{key}: "project set" has said nothing of it in project "{project.name}"'
    if part not in project.settings.cron:
        return f'{key}: there is no job "{part}" in project "{project.name}"'
    off = f"taskqueue project set {project.name} 'cron={{\"{part}\": null}}'"
    return f"{key}: stands in the config file; remove it there, or switch it off with: {off}"


def _that_fit(attempts: Iterable[AttemptRecord], room: int) -> list[Attempt]:
    """The first of the attempts, as many as fit into so many bytes; the error of the very first is told twice."""
    fitting: list[Attempt] = []
    for attempt in attempts:
        error = len(attempt.error.encode())
        room -= ATTEMPT_BYTES + len(attempt.fetcher.encode()) + (error if fitting else 2 * error)
        if room < 0:
            break
        fitting.append(Attempt(*astuple(attempt)))
    return fitting


def _tell_state(turn: TurnState, task: Task, reply: TaskReply) -> None:
    reply.crashes = task.crashes
    if task.state == DELAYED:
        reply.exetime = task.exetime
    elif task.lease is not None:
        reply.lease_seconds = max(0.0, task.lease.deadline - turn.now.boot)
        reply.session = turn.state.sessions[task.lease.session].pseudonym
    elif task.state in (FAILED, SUCCESS, CANCELLED):
        reply.finished_at = key_time(task.key)
        reply.bare_since = task.exetime
    if task.state != SUCCESS and reply.history:
        reply.error = reply.history[0].error
