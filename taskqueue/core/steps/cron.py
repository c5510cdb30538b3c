"""Cron: tasks, and graphs of tasks, that the daemon makes by itself, again and again.

    tick due ──► task of the last tick unfinished? ──yes──► skipped, counted
                          │ no
                          └──► pushed with force_update, in the commit that keeps the tick

    tick of a graph due ──► earlier flow unfinished? ──yes──► skipped, counted; or waits for its end; or has both
                                  │ no
                                  └──► flow ENTRY-TICK with all of its tasks, in the commit that keeps the tick

Rules:
1. After missed ticks an entry runs once, and then at its next tick: a stall never causes a storm.
2. Entries tick in every state of the project; a stopped project collects at most one task of each.
3. A turn runs about ENTRIES_A_TURN entries; if more are due at one moment, the rest runs in the next turn. Each task of
   a graph counts as an entry. A turn runs one tick of an entry, at most.
4. A tick of a graph makes all of its tasks, or none: it is skipped, with the reason, if one is known, if there is no
   room, or if ``after_failure`` forbids it. The first of ticks in a row that are skipped for one reason emits an event.
5. At most TICKS_MOST flows of an entry run at once, and at most TICKS_MOST of its ticks wait.

The task of the last tick, or the tasks of the graph, are looked up first: ``need`` when the turn begins, ``tick`` when
it decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Final

from msgspec.structs import replace

from taskqueue.core.model.cron_times import DueTick, can_run_waiting, next_tick
from taskqueue.core.model.edges import TaskRef
from taskqueue.core.model.flow import Flow
from taskqueue.core.model.needs import Needs
from taskqueue.core.model.project import Project
from taskqueue.core.model.records import TICKS_MOST, StagedTask
from taskqueue.core.model.task import LIVE
from taskqueue.core.moves import flows
from taskqueue.core.moves.push import make, need_tasks, push
from taskqueue.core.state import State
from taskqueue.core.turn_state import TurnState
from taskqueue.protocol.values import CronRecord, NewTask, Schedule
from taskqueue.settings.environment import Environment
from taskqueue.settings.graph_order import parents_first
from taskqueue.settings.own_tasks import CronEntry, GraphTask, Template, at_tick, flow_name, graph_taskids

ENTRIES_A_TURN: Final = 64
"""Entries run in one turn, about: at midnight one entry of each of ten thousand projects may be due."""

NO_DIGITS: Final = str.maketrans("", "", "0123456789")
"""Translation that leaves out digits, in which a reason differs from tick to tick: names with ticks, and counts."""


def need(turn: TurnState, wanted: Needs) -> None:
    """Look up the tasks of due entries."""
    state, now = turn.state, turn.now
    budget = ENTRIES_A_TURN
    while budget > 0 and (number := state.cron_timers.pop_due(now.wall)) is not None:
        project = state.projects.by_number[number]
        due: list[DueTick] = []
        turn.due.ticking[number] = due
        for each in _due(state, project, now.wall):
            if budget <= 0:
                break
            due.append(each)
            _need_tasks(turn, project, each, wanted)
            budget -= max(1, len(each.tasks))


def tick(turn: TurnState) -> None:
    """Run the entries whose tasks were looked up."""
    state = turn.state
    for number, due in turn.due.ticking.items():
        project = state.projects.by_number.get(number)
        if project is not None:
            for each in due:
                _run(turn, project, each)
            state.plan_cron(project)


def task_of(name: str, entry: CronEntry, at: float) -> Template:
    """Return the task that an entry pushes at a tick."""
    task = at_tick(entry.task, _digits(at))
    return replace(task, taskid=task.taskid or f"cron.{name}", url=task.url or f"data:,cron.{name}")


def graph_of(name: str, entry: CronEntry, at: float, environment: Environment) -> tuple[NewTask, ...]:
    """Make the tasks of an entry's graph at a tick, parents first."""
    taskids = graph_taskids(name, entry.tasks, _digits(at))
    order = parents_first({key: task.after for key, task in entry.tasks.items()})
    return tuple([_member(entry.tasks[key], taskids[key], taskids, at, environment) for key in order])


def _member(task: GraphTask, taskid: str, taskids: dict[str, str], at: float, environment: Environment) -> NewTask:
    filled = at_tick(task, _digits(at))
    return NewTask(
        taskid,
        filled.url or f"data:,{taskid}",
        Schedule(task.priority, retries=task.retries, age=task.age, timeout=task.timeout),
        environment.pack(filled.body),
        depends_on=tuple(dict.fromkeys([taskids[parent] for parent in task.after])),
        on_parent_failure=task.on_parent_failure,
    )


def _due(state: State, project: Project, wall: float) -> Iterator[DueTick]:
    """Yield the ticks that are due, at most one of an entry; one that has waited comes first."""
    for name, entry in project.settings.cron.items():
        has_waited = can_run_waiting(project, state.flows, name)
        at = project.cron[name].waiting[0] if has_waited else project.ticks.get(name, inf)
        if has_waited or at <= wall:
            tasks = graph_of(name, entry, at, state.environment) if entry.tasks else ()
            yield DueTick(name, entry, at, task_of(name, entry, at), tasks, has_waited)


def _need_tasks(turn: TurnState, project: Project, each: DueTick, wanted: Needs) -> None:
    if each.tasks:
        need_tasks(turn, project.name, each.tasks, wanted)
        return
    taskids = (project.cron[each.name].taskid, each.task.taskid)
    wanted.tasks += [
        TaskRef(project.number, taskid) for taskid in taskids if taskid and taskid not in project.queue.tasks
    ]


def _run(turn: TurnState, project: Project, each: DueTick) -> None:
    now = turn.now
    record = project.cron[each.name]
    turn.touch(project)
    if each.has_waited:
        record.waiting = record.waiting[1:]
        _submit(turn, project, record, each)
        return
    turn.state.lateness_seconds.note(now.wall - each.at)
    if each.entry.tasks:
        _begin(turn, project, record, each)
    else:
        _push(turn, project, record, each)
    record.last_at = now.wall
    project.ticks[each.name] = next_tick(each.entry, turn.state.environment, now.wall)


def _push(turn: TurnState, project: Project, record: CronRecord, each: DueTick) -> None:
    """Push the task of a due tick, unless that of an earlier one is live."""
    record.problem = ""  # of a graph that the task has replaced
    if _is_live(turn, project, record.taskid):
        record.skipped += 1
        return
    record.ran += 1
    record.taskid = each.task.taskid
    push(turn, project, each.task.taskid, each.task.url, each.task)


def _is_live(turn: TurnState, project: Project, taskid: str) -> bool:
    task = turn.find(project, taskid) if taskid else None
    return task is not None and task.state in LIVE


def _digits(at: float) -> str:
    return str(int(at))


# ------------------------------------------------------------------------------------------------ graphs


def _begin(turn: TurnState, project: Project, record: CronRecord, each: DueTick) -> None:
    """Submit the graph of a due tick, unless it has to wait for earlier flows, or is skipped because of them."""
    running = turn.state.flows.running_of_cron(project.number, each.name)
    overlap = each.entry.overlap
    if not running or (overlap == "both" and running < TICKS_MOST):
        _submit(turn, project, record, each)
    elif each.at in record.waiting:  # the clock shows it again
        _skip(turn, project, record, each, "it waits already")
    elif overlap == "wait" and len(record.waiting) < TICKS_MOST:
        record.waiting = [*record.waiting, each.at]
    else:
        problems = {
            "skip": "an earlier flow of the entry has not ended",
            "wait": f"{TICKS_MOST} ticks wait already",
            "both": f"{TICKS_MOST} flows of the entry have not ended",
        }
        _skip(turn, project, record, each, problems[overlap])


def _submit(turn: TurnState, project: Project, record: CronRecord, each: DueTick) -> None:
    """Make the flow of a tick, with all of its tasks, unless there is a reason not to."""
    state, now = turn.state, turn.now
    name = flow_name(each.name, _digits(each.at))
    if problem := _obstacle(turn, project, name, each):
        _skip(turn, project, record, each, problem)
        return
    flow = state.flows.begin(project.number, name, now.wall, each.name, each.at)
    state.flows.accept(flow)
    writes = turn.changes.writes
    writes.next_flow = state.flows.next_number
    writes.staged += [StagedTask(flow.number, index, task) for index, task in enumerate(each.tasks)]
    flow.record.tasks = flow.record.unrolled = flow.record.new = len(each.tasks)
    flow.record.size = sum([flows.staged_bytes(task) for task in each.tasks])
    for item in each.tasks:
        flows.join(turn, flow, make(turn, project, item))
        flows.note_arrival(turn, project, item.taskid, name)
    record.ran += 1
    record.problem = ""


def _skip(turn: TurnState, project: Project, record: CronRecord, each: DueTick, problem: str) -> None:
    """Skip a tick; emit an event unless the tick before was skipped for the same reason, numbers aside."""
    if problem.translate(NO_DIGITS) != record.problem.translate(NO_DIGITS):
        name = flow_name(each.name, _digits(each.at))
        turn.emit("tick-skipped", project, f"flow {name} was not submitted: {problem}")
    record.skipped += 1
    record.problem = problem


def _obstacle(turn: TurnState, project: Project, name: str, each: DueTick) -> str:
    """Return the reason why the flow of a tick can't be made; empty if it can."""
    state = turn.state
    if not state.config.has_room:
        return "the disk is nearly full"
    if crowd := state.flows.crowd:
        return crowd
    if (project.number, name) in state.flows.by_name:
        return f"there is a flow {name} already"
    failed = _failed(state, project, each.name) if each.entry.after_failure == "skip" else None
    if failed is not None:
        return f"flow {failed.record.name} has failed"
    new, queue, settings = len(each.tasks), project.queue, project.settings
    if queue.live + project.reserved + new > settings.max_queue:
        return f"no room for {new} more tasks: max_queue is {settings.max_queue:g}"
    if queue.known + project.reserved + new > settings.max_tasks:
        return f"no room for {new} more tasks: max_tasks is {settings.max_tasks:g}"
    if len({item.taskid for item in each.tasks}) < new:  # "17{tick}" and "{tick}17" are the same at 1717171717
        return "two of its tasks have the same taskid"
    for item in each.tasks:
        if turn.find(project, item.taskid) is not None or flows.is_promised(turn, project, item.taskid):
            return f"task {item.taskid} is known already"
        if (project.number, item.taskid) in turn.found.unreadable:
            return f"the record of task {item.taskid} can't be read"
    return ""


def _failed(state: State, project: Project, entry: str) -> Flow | None:
    """Return the last ended flow of an entry if it has failed."""
    ended = [flow for flow in state.flows.of_cron(project.number, entry) if flow.record.ended_at]
    return ended[-1] if ended and ended[-1].state == "failed" else None
