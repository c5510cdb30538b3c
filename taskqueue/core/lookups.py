"""What a turn must know before it decides, and taking in what was found.

    heard ──► taskids not in memory ─┐
    heads that ran low ──────────────┼──► Needs ──► (store) ──► Found ──► heads, hollow tasks, sessions
    hollow tasks that are needed ────┘

Known tasks are found in memory first. A task that is processing always is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from taskqueue.core.admin import change_log, failure_counts, operations, task_list
from taskqueue.core.projects.project import Project
from taskqueue.core.projects.session import Session
from taskqueue.core.rules import clock_step, completion, cron, event_history, failures, memory_limits, retention, sweep
from taskqueue.core.rules.fetchers import RESENT_MOST
from taskqueue.core.state import State
from taskqueue.core.tasks.needs import Found, LeaseAnswer, Needs, OrderRef, SpecRef, TaskRef
from taskqueue.core.tasks.task import DELAYED, NO_FLOOR, READY
from taskqueue.errors import Corrupt
from taskqueue.protocol.fields import NewTask, Now
from taskqueue.protocol.requests import (
    Done,
    Extend,
    GroupDo,
    Hello,
    Incoming,
    Log,
    NewTasks,
    ProjectDo,
    StatsHistory,
    TaskCancel,
    TaskList,
    TaskRetry,
    TaskShow,
    Why,
)

REFILLS_A_TURN: Final = 32
"""Orders that are read further in one turn: with many projects a start is spread over several turns."""

SPECS_A_TURN: Final = 256
"""Hollow tasks that are filled in one turn, beside those that its requests are about."""


def needs(state: State, now: Now, heard: Sequence[Incoming]) -> Needs:
    """What must be looked up for these requests, and for the heads."""
    state.shed()
    state.asked.clear()
    state.lists.clear()
    state.clears = any(_clears(each) for each in heard)
    wanted = Needs()
    clock_step.follow(state, now)
    cron.need(state, now, wanted)
    completion.need(state, wanted)
    operations.need(state, wanted)
    sweep.need(state, wanted)
    retention.need(state, now, wanted)
    failures.need(state, now, wanted)
    failure_counts.need(state, wanted)
    for each in heard:
        _need_for(state, each, wanted)
    _need_low(state, wanted)
    wanted.specs = list(state.asked)
    wanted.later = _wanted(state)
    wanted.whole = list(dict.fromkeys(wanted.whole))
    wanted.sessions = list(dict.fromkeys(wanted.sessions))
    return wanted


def absorb(state: State, found: Found) -> None:
    """Take in what was found, before anything of the turn is decided."""
    for order in found.orders:
        project = state.numbered.get(order.ref.project)
        if project is None:
            raise Corrupt(f"an order of project number {order.ref.project} was read, which is not known")
        state.low.pop(project.number, None)
        project.queue.refill(order.ref.state, order.tasks, end=order.end)
        state.touch(project)
    state.listed = {part.ref: part for part in found.lists}
    if state.swept:
        state.changes.outdate(state.swept)
    state.asked.update((ref, state.wanted.pop(ref)) for ref in found.later)
    state.fill(found.specs)


def _wanted(state: State) -> list[SpecRef]:
    """Of hollow tasks that are wanted, those that come next; what is so no more is forgotten."""
    coming = list(islice(state.wanted, SPECS_A_TURN))
    for ref in coming:
        if ref in state.asked or not state.is_hollow(ref, state.wanted[ref]):
            del state.wanted[ref]
    return [ref for ref in coming if ref in state.wanted]


def note_low(state: State, project: Project) -> None:
    """If there is more of the project in the store and little in memory, have it read for the next turn."""
    if _low_orders(state, project):
        state.low[project.number] = None


def _need_low(state: State, wanted: Needs) -> None:
    """The next entries of orders that ran low; one that has been filled otherwise meanwhile is low no more."""
    for number in list(state.low):
        if len(wanted.orders) >= REFILLS_A_TURN:
            break
        orders = _low_orders(state, state.numbered[number])
        wanted.orders += orders
        if not orders:
            del state.low[number]


def _low_orders(state: State, project: Project) -> list[OrderRef]:
    queue, config = project.queue, state.config
    if queue.ready.floor == NO_FLOOR and queue.delayed.floor == NO_FLOOR:
        return []
    most = memory_limits.share(state)
    return [
        OrderRef(project.number, which, queue.head(which).floor, memory_limits.refill_tasks(state, which), most // 2)
        for which in (READY, DELAYED)
        if queue.head(which).is_low(config.head_tasks, most)
    ]


def _need_for(state: State, heard: Incoming, wanted: Needs) -> None:
    request = heard.request
    session = state.sessions.get(request.session)
    # Of one that is unknown the store has nothing: all that it has are loaded, and forgotten here and there at once.
    if session is not None and (session.kept_requests is None or session.has_done(request.n)):
        wanted.sessions.append(request.session)
    match request:
        case NewTasks():
            _need_tasks(state, request.project, request.tasks, wanted)
        case Done():
            _need_done(state, request, wanted)
        case TaskShow():
            _need_shown(state, request.project, request.taskid, wanted)
        case Why(taskid=str(taskid)):
            _need_shown(state, request.project, taskid, wanted)
        case TaskList():
            task_list.need(state, request, wanted)
        case Log():
            wanted.log.append(change_log.need(state, request))
        case StatsHistory():
            event_history.need(state, request, wanted)
        case TaskRetry() | TaskCancel():
            _need_named(state, request, wanted)
        case Hello() if session is not None:
            _need_unseen(state, session, request.seen)
        case Extend():
            _need_extended(state, request)


def _clears(heard: Incoming) -> bool:
    return isinstance(heard.request, ProjectDo | GroupDo) and heard.request.action == "clear"


def _need_tasks(state: State, name: str, items: Iterable[NewTask | None], wanted: Needs) -> None:
    default = state.projects.get(name)
    for item in items:
        if item is None:
            continue
        project = state.projects.get(item.project) if item.project else default
        if project is not None and item.taskid not in project.queue.tasks:
            wanted.tasks.append(TaskRef(project.number, item.taskid))


def _need_done(state: State, request: Done, wanted: Needs) -> None:
    for item in request.tasks:
        project = state.projects.get(item.project) if item else None
        if item is None or project is None:
            continue
        task = project.queue.tasks.get(item.taskid)
        if task is None:
            wanted.answered.append(LeaseAnswer(project.number, item.taskid, item.token))
        elif task.spec is None and task.token == item.token:
            state.ask(task)
        if item.new:
            _need_tasks(state, item.project, item.new, wanted)


def _need_shown(state: State, name: str, taskid: str, wanted: Needs) -> None:
    """A task with everything that is known of it."""
    project = state.projects.get(name)
    if project is not None:
        ref = TaskRef(project.number, taskid)
        if (held := project.queue.tasks.get(taskid)) is not None:
            state.ask(held)
        wanted.whole.append(ref)
        wanted.histories.append(ref)


def _need_named(state: State, request: TaskRetry | TaskCancel, wanted: Needs) -> None:
    """A task that is made live in a cleared project is written anew, with its spec."""
    project = state.projects.get(request.project)
    if project is not None:
        refs = [TaskRef(project.number, taskid) for taskid in request.taskids]
        is_swept = project.number in state.swept or state.clears
        (wanted.whole if is_swept and isinstance(request, TaskRetry) else wanted.tasks).extend(refs)


def _need_extended(state: State, request: Extend) -> None:
    """A lease may be as long as its task's own schedule says."""
    for ref in () if request.seconds is not None else request.leases:
        project = state.projects.get(ref.project)
        task = project.queue.tasks.get(ref.taskid) if project is not None else None
        if task is not None and task.token == ref.token:
            state.ask(task)


def _need_unseen(state: State, session: Session, seen: int) -> None:
    """What has not arrived will be sent again, for which its specs are needed."""
    for task in session.leases.values():
        if task.lease is not None and seen < task.lease.number <= seen + RESENT_MOST:
            state.ask(task)
