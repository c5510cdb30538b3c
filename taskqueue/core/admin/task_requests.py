"""Requests of people about single tasks: show one, retry some, cancel some."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import Raw
from msgspec.structs import astuple, replace

from taskqueue.core.admin import change_log
from taskqueue.core.projects.project import Project
from taskqueue.core.request_rule import RequestRule, Who, asked, asked_for_change
from taskqueue.core.rules.push import cancel, revive
from taskqueue.core.tasks.attempt import AttemptRecord, kind_of
from taskqueue.core.tasks.needs import Needs, TaskRef
from taskqueue.core.tasks.spec import NO_SPEC, Spec
from taskqueue.core.tasks.task import (
    ATTEMPTS_KEPT,
    BLOCKED,
    DELAYED,
    OVER,
    PROCESSING,
    READY,
    STATE_NAMES,
    SUCCESS,
    Task,
    is_held,
    key_time,
)
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Rejected
from taskqueue.protocol.message_room import attempt_bytes, room_beside
from taskqueue.protocol.tasks import Attempt, TaskCancel, TaskReply, TaskReprioritise, TaskRetry, TaskShow, TasksReply

NamedTasks = TaskRetry | TaskCancel | TaskReprioritise
"""Requests that change tasks by their names."""

LOGGED_AS: Final[dict[type, str]] = {
    TaskRetry: "task retry",
    TaskCancel: "task cancel",
    TaskReprioritise: "task reprioritise",
}

TASKIDS_LOGGED = 5
"""Taskids that a log entry names."""


def show_task(turn: TurnState, message: TaskShow) -> TaskReply:
    """One task with its body."""
    state = turn.state
    project = state.projects.named(message.project)
    task = turn.find(project, message.taskid)
    if task is None:
        raise Rejected("unknown-task", f'taskid: "{message.taskid}" is unknown in project "{project.name}"')
    spec = NO_SPEC if task.bare else spec_of(turn, project, task)
    fetcher = state.sessions[task.lease.session].label if task.lease else ""
    room = room_beside(spec.url, spec.schedule, state.config.max_message) - len(spec.body) - len(fetcher.encode())
    result = result_of(turn, project, task)
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
        fetcher=fetcher,
        put_off=task.put_off,
        pushed_at=float(task.pushed_at),
    )
    if result is not None:
        reply.result_bytes = len(result)
        if len(result) <= room:
            room -= len(result)
            reply.result = result
    reply.history = _that_fit(history_of(turn, project, task), room)
    _tell_state(turn, task, reply)
    return reply


def spec_of(turn: TurnState, project: Project, task: Task) -> Spec:
    """The spec of a task that was looked up whole for this turn, wherever the task is now."""
    return task.spec or turn.spec_of(turn.changes.beyond.get((project.number, task.taskid)) or task)


def history_of(turn: TurnState, project: Project, task: Task) -> list[AttemptRecord]:
    """The last attempts of a task, the newest first, this turn's included."""
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


def result_of(turn: TurnState, project: Project, task: Task) -> Raw | None:
    """The result of a task's last success, this turn's included; it was looked up for this turn."""
    if not task.has_result:
        return None
    ref = TaskRef(project.number, task.taskid)
    return turn.changes.writes.results.get(ref) or turn.found.results.get(ref)


def retry_tasks(turn: TurnState, by: Who, message: TaskRetry) -> TasksReply:
    """Make delayed and finished tasks ready now, with all their retries; ones in other states are ignored."""
    ignored = (READY, PROCESSING, BLOCKED)
    return _change_each(turn, by, message, ignored, lambda project, task: revive(turn, project, task))


def cancel_tasks(turn: TurnState, by: Who, message: TaskCancel) -> TasksReply:
    """End live tasks as cancelled; finished ones are ignored."""
    return _change_each(turn, by, message, OVER, lambda project, task: cancel(turn, project, task))


def reprioritise_tasks(turn: TurnState, by: Who, message: TaskReprioritise) -> TasksReply:
    """Give live tasks another priority; finished ones are ignored."""

    def change(project: Project, task: Task) -> None:
        turn.touch(project)
        project.queue.reprioritise(turn.changes, task, message.priority)
        turn.state.want_held(project, task)

    return _change_each(turn, by, message, OVER, change)


def _change_each(
    turn: TurnState,
    by: Who,
    message: NamedTasks,
    ignored: tuple[int, ...],
    change: Callable[[Project, Task], None],
) -> TasksReply:
    """Change the named tasks, except those in a state in which there is nothing to change, and log it."""
    project = turn.state.projects.named(message.project)
    reply = TasksReply(n=message.n, outcomes=[])
    changed: list[str] = []
    for taskid in message.taskids:
        task = turn.find(project, taskid)
        if task is None:
            reply.outcomes.append("unknown")
        elif task.state in ignored:
            reply.outcomes.append("ignored")
        elif task.bare:
            reply.outcomes.append("bare")
        else:
            if len(changed) < TASKIDS_LOGGED:
                changed.append(_with_old_value(message, task))
            change(project, task)
            reply.outcomes.append("done")
    if changed:
        _log(turn, by, message, changed, reply.outcomes.count("done"))
    return reply


def _with_old_value(message: NamedTasks, task: Task) -> str:
    """A taskid as the log names it, with what the request is about to change."""
    old = task.priority if isinstance(message, TaskReprioritise) else STATE_NAMES[task.state]
    return f"{task.taskid} (was {old})"


def _log(turn: TurnState, by: Who, message: NamedTasks, tasks: Sequence[str], count: int) -> None:
    said = [f"priority={message.priority}"] if isinstance(message, TaskReprioritise) else []
    detail = " ".join([*said, *tasks])
    change_log.note(turn, by, LOGGED_AS[type(message)], project=message.project, count=count, detail=detail)


def _that_fit(attempts: Iterable[AttemptRecord], room: int) -> list[Attempt]:
    """The first of the attempts, as many as fit into ``room`` bytes; the error of the very first is sent twice."""
    fitting: list[Attempt] = []
    for attempt in attempts:
        kind = kind_of(attempt)
        room -= attempt_bytes(attempt.fetcher, attempt.error, kind, errors=1 if fitting else 2)
        if room < 0:
            break
        fitting.append(Attempt(*astuple(replace(attempt, kind=kind))))
    return fitting


def _tell_state(turn: TurnState, task: Task, reply: TaskReply) -> None:
    reply.crashes = task.crashes
    if task.state in (DELAYED, BLOCKED):
        reply.exetime = 0.0 if is_held(task) else task.exetime
    elif task.lease is not None:
        reply.lease_seconds = max(0.0, task.lease.deadline - turn.now.boot)
        reply.session = turn.state.sessions[task.lease.session].pseudonym
    elif task.state in OVER:
        reply.finished_at = key_time(task.key)
        reply.bare_since = task.exetime
    if task.state != SUCCESS and reply.history:
        reply.error = reply.history[0].error


def need_shown(turn: TurnState, name: str, taskid: str, wanted: Needs) -> None:
    """Look up everything that is known of a task."""
    project = turn.state.projects.by_name.get(name)
    if project is not None:
        ref = TaskRef(project.number, taskid)
        if (held := project.queue.tasks.get(taskid)) is not None:
            turn.ask(held)
        wanted.whole.append(ref)
        wanted.histories.append(ref)


def _need_shown(turn: TurnState, request: TaskShow, wanted: Needs) -> None:
    need_shown(turn, request.project, request.taskid, wanted)
    project = turn.state.projects.by_name.get(request.project)
    if project is not None:
        wanted.results.append(TaskRef(project.number, request.taskid))


def _need_named(turn: TurnState, request: NamedTasks, wanted: Needs) -> None:
    """Look up the named tasks; with their specs if a retry may revive cleared ones, which are written anew."""
    state = turn.state
    project = state.projects.by_name.get(request.project)
    if project is not None:
        refs = [TaskRef(project.number, taskid) for taskid in request.taskids]
        is_swept = project.number in state.pending.swept or turn.clears
        (wanted.whole if is_swept and isinstance(request, TaskRetry) else wanted.tasks).extend(refs)


REQUESTS: Final = (
    RequestRule(TaskShow, asked(show_task), _need_shown, keeps=False, slow_ms=5.0),
    RequestRule(TaskRetry, asked_for_change(retry_tasks), _need_named, grows=True),
    RequestRule(TaskCancel, asked_for_change(cancel_tasks), _need_named),
    RequestRule(TaskReprioritise, asked_for_change(reprioritise_tasks), _need_named),
)
