"""Requests about flows: stage, submit, show, list and cancel; their later steps are in ``steps/flows``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from taskqueue.core.model.flow import Check, Flow
from taskqueue.core.model.needs import MemberRef, Needs, StageRef
from taskqueue.core.model.project import Project
from taskqueue.core.model.records import StagedTask
from taskqueue.core.model.session import Session
from taskqueue.core.model.task import OVER, STATE_NAMES, key_time
from taskqueue.core.model.waiters import Waiter
from taskqueue.core.moves import change_log, edges, flows
from taskqueue.core.moves.projects import project_for_push
from taskqueue.core.request_rule import Halves, RequestRule, Who, asked, asked_by, asked_for_change, in_halves
from taskqueue.core.state import State
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Rejected
from taskqueue.protocol.flows import (
    FlowCancel,
    FlowList,
    FlowReply,
    FlowShow,
    FlowsReply,
    FlowStage,
    FlowStaged,
    FlowSubmit,
    FlowTasks,
    FlowTasksReply,
    FlowTaskStatus,
)
from taskqueue.protocol.message_room import errors_that_fit, flow_task_bytes, room_beside, room_in
from taskqueue.protocol.tasks import ItemError
from taskqueue.protocol.values import Attempt, NewTask, TaskOf

STAGES_MOST = 100
"""Flows that are staged but not accepted, at most."""

TASKS_MOST = 2_000_000
"""Tasks of a flow, at most."""

BYTES_MOST = 4 << 30
"""Bytes of all tasks of a flow, approximately, at most."""

SUBMIT_SECONDS: Final = 3600.0
"""Longest wait for the check of a flow, which ends long before."""


# ------------------------------------------------------------------------------------------------ stage, submit


def stage(turn: TurnState, request: FlowStage) -> FlowStaged:
    """Stage tasks of a flow, all or none.

    Raises:
        Rejected: the project is unknown; the flow has been submitted; the tasks don't continue those that are staged;
            there are too many tasks, bytes or stages.
    """
    state, now = turn.state, turn.now
    project = state.projects.by_name.get(request.project) or project_for_push(turn, request.project)
    project.check_whole()
    flow = state.flows.by_name.get((project.number, request.flow))
    if flow is not None and (flow.record.is_accepted or flow.check is not None):
        raise Rejected("state", f'flow: "{request.flow}" has been submitted already')
    staged = flow.record.tasks if flow is not None else 0
    if request.first not in (0, staged):
        reason = f"expected {staged}, the number of staged tasks, or 0 to start over, not {request.first}"
        raise Rejected("state", f"first: {reason}")
    errors = _errors(turn, project, flow if request.first else None, request.tasks)
    if errors:
        return FlowStaged(n=request.n, staged=staged, errors=errors_that_fit(errors, 0, 0, state.config.max_message))
    size = sum(map(flows.staged_bytes, request.tasks))
    _check_limits(state, flow if request.first else None, len(request.tasks), size, is_new=flow is None)
    if flow is not None and not request.first:
        flows.drop(turn, flow, Rejected("unknown-flow", "it was started over"))
    if flow is None or not request.first:
        flow = state.flows.begin(project.number, request.flow, now.wall)
        turn.changes.writes.next_flow = state.flows.next_number
    record = flow.record
    turn.changes.writes.staged += [
        StagedTask(flow.number, record.tasks + index, task) for index, task in enumerate(request.tasks)
    ]
    record.tasks += len(request.tasks)
    record.size += size
    record.staged_at = now.wall
    state.wall_timers.note(("stage", flow.number), now.wall + flows.STAGE_SECONDS)
    turn.changed_flows[flow.number] = flow
    return FlowStaged(n=request.n, staged=record.tasks)


def submit(turn: TurnState, session: Session, request: FlowSubmit) -> FlowReply | None:
    """Start the check of a flow, which accepts it if nothing is wrong; a step of the check sends the reply.

    Raises:
        Rejected: the flow is unknown or has another number of tasks; too many flows are running or requests waiting.
    """
    state = turn.state
    project, flow = _named(state, request.project, request.flow)
    record = flow.record
    if record.tasks != request.count:
        raise Rejected("state", f"count: {record.tasks} tasks are staged, not {request.count}")
    if record.is_accepted:
        return FlowReply(n=request.n, flow=flow.view(project.name))
    if flow.check is None and (crowd := state.flows.crowd):
        raise Rejected("full", f"flow: {crowd}; wait until one ends")
    if flow.check is not None and flow.check.reuse != request.reuse:
        raise Rejected("state", f'flow: "{record.name}" is being submitted already, with another value of reuse')
    state.waits.add(flow.submitters, Waiter(session, request.n, turn.now.boot + SUBMIT_SECONDS))
    if flow.check is None:
        flow.check = Check(reuse=request.reuse)
        flows.note(state, flow)
    flow.check.is_scoped |= turn.caller.scope is not None
    return None


def _errors(turn: TurnState, project: Project, flow: Flow | None, tasks: Sequence[NewTask]) -> list[ItemError]:
    errors: list[ItemError] = []
    places = {task.taskid: index for index, task in enumerate(tasks)}
    for index, task in enumerate(tasks):
        try:
            _check_task(turn, project, flow, index, task, places)
        except Rejected as rejected:
            errors.append(ItemError(index, rejected.reason))
    return errors


def _check_task(
    turn: TurnState, project: Project, flow: Flow | None, index: int, task: NewTask, places: dict[str, int]
) -> None:
    if task.project not in (None, project.name):
        raise Rejected("malformed", f"project: tasks of this flow belong to {project.name}, not to {task.project}")
    if task.schedule.cancel:
        raise Rejected("malformed", "schedule.cancel: not allowed in a flow")
    edges.check_whole(turn, project, task)
    if places[task.taskid] != index or (flow is not None and MemberRef(flow.number, task.taskid) in turn.found.members):
        raise Rejected("malformed", f"taskid: {task.taskid} is in the flow already")
    for parent in task.depends_on:
        name, taskid = (project.name, parent) if isinstance(parent, str) else (parent.project, parent.taskid)
        if name not in turn.state.projects.by_name:
            raise Rejected("unknown-project", f'depends_on: there is no project "{name}"')
        if name == project.name and places.get(taskid, -1) >= index:
            raise Rejected(
                "malformed", f"depends_on: {taskid} must come before {task.taskid}, because parents come first"
            )
    room = room_beside(task.url, task.schedule, turn.state.config.max_message)
    room -= len(project.fetch) if project.fetch is not None else 0
    if len(task.body) > room:
        raise Rejected("too-large", f"body: {len(task.body)} bytes, at most {max(0, room)} are taken with this URL")


def _check_limits(state: State, flow: Flow | None, tasks: int, size: int, *, is_new: bool) -> None:
    if is_new and state.flows.stages >= STAGES_MOST:
        raise Rejected("full", f"flow: {STAGES_MOST} flows are staged already, the most allowed; submit or cancel one")
    if tasks + (flow.record.tasks if flow is not None else 0) > TASKS_MOST:
        raise Rejected("full", f"tasks: a flow has at most {TASKS_MOST} tasks")
    if size + (flow.record.size if flow is not None else 0) > BYTES_MOST:
        raise Rejected("full", f"tasks: all tasks of a flow take at most {BYTES_MOST} bytes")


def _need_stage(turn: TurnState, request: FlowStage, wanted: Needs) -> None:
    flow = _find(turn.state, request.project, request.flow)
    if flow is not None and request.first:
        wanted.members += [MemberRef(flow.number, task.taskid) for task in request.tasks]


# ------------------------------------------------------------------------------------------------ show, list


def show(turn: TurnState, session: Session, request: FlowShow) -> FlowReply | None:
    """Answer with the progress of a flow: at once, or when it ends if the request waits.

    Raises:
        Rejected: the flow is unknown or forgotten, or too many requests wait already.
    """
    state, now = turn.state, turn.now
    project, flow = _named(state, request.project, request.flow)
    if request.seconds and not flow.record.ended_at:
        state.waits.add(flow.waiters, Waiter(session, request.n, now.boot + request.seconds))
        state.boot_timers.note(("flow", flow.number), now.boot + request.seconds)
        return None
    return FlowReply(n=request.n, flow=flow.view(project.name))


def list_all(turn: TurnState, request: FlowList) -> FlowsReply:
    """Answer with a page of flows, ordered by project and name.

    Raises:
        Rejected: the project is unknown.
    """
    state = turn.state
    projects = state.projects
    if request.project:
        projects.named(request.project)
    rows = sorted(
        (projects.by_number[flow.record.project].name, flow.record.name, flow.number)
        for flow in state.flows.by_number.values()
    )
    after = tuple(request.after.partition("/")[::2])
    rows = [row for row in rows if (not request.project or row[0] == request.project) and row[:2] > after]
    if turn.caller.scope is not None:
        rows = [row for row in rows if turn.caller.reaches(row[0])]
    page = [state.flows.by_number[number].view(name) for name, _, number in rows[: request.limit]]
    return FlowsReply(n=request.n, flows=page, more=len(rows) > request.limit)


def list_tasks(turn: TurnState, request: FlowTasks, wanted: Needs) -> Halves:
    """Answer with a page of the tasks of a flow.

    Raises:
        Rejected: the flow is unknown or forgotten.
    """
    project, flow = _named(turn.state, request.project, request.flow)
    first = min(request.after or 0, flow.record.tasks)
    ref = StageRef(flow.number, first, request.limit, flow.record.project)
    wanted.stages.append(ref)
    yield
    found = turn.found.stages.get(ref)
    reply = FlowTasksReply(n=request.n, tasks=[])
    room = room_in(turn.state.config.max_message)
    for index, item in enumerate(found.tasks if found is not None else (), first):
        view = _task_view(turn, project, flow, index, item, found.attempts.get(item.taskid) if found else None)
        room -= flow_task_bytes(view)
        if room < 0 and reply.tasks:
            break
        reply.tasks.append(view)
    first += len(reply.tasks)
    reply.next = first if first < flow.record.tasks else None
    return reply


def _task_view(
    turn: TurnState, project: Project, flow: Flow, index: int, item: NewTask, attempt: Attempt | None
) -> FlowTaskStatus:
    depends_on = [
        _parent_view(turn, flow, parent, project)
        for parent in item.depends_on
        if isinstance(parent, str) or turn.caller.reaches(parent.project)
    ]
    view = FlowTaskStatus(index, item.taskid, item.url, "staged", depends_on)
    if index >= flow.record.unrolled:
        return view
    task = turn.find(project, item.taskid)
    if task is None:
        return replace(view, state="unknown")
    return replace(
        view,
        state=STATE_NAMES[task.state],
        missing=task.links.missing if task.links is not None else 0,
        seconds=attempt.seconds if attempt is not None else 0.0,
        ended_at=key_time(task.key) if task.state in OVER else 0.0,
    )


def _parent_view(turn: TurnState, flow: Flow, parent: str | TaskOf, project: Project) -> int | tuple[str, str]:
    if not isinstance(parent, str):
        return parent.project, parent.taskid
    index = turn.found.members.get(MemberRef(flow.number, parent))
    return (project.name, parent) if index is None else index


# ------------------------------------------------------------------------------------------------ cancel


def cancel(turn: TurnState, by: Who, request: FlowCancel) -> FlowReply:
    """Cancel the unfinished tasks of a flow, step by step, or drop its stage. Finished tasks don't change.

    A flow of a cron entry that has failed is then cancelled, so that the entry runs although no retry can help.

    Raises:
        Rejected: the flow is unknown or forgotten.
    """
    project, flow = _named(turn.state, request.project, request.flow)
    record = flow.record
    if record.ended_at and not (record.cron and flow.state == "failed"):
        return FlowReply(n=request.n, flow=flow.view(project.name))
    change_log.note(turn, by, "flow cancel", project=project.name, detail=record.name)
    if not record.is_accepted:
        flows.drop(turn, flow, Rejected("unknown-flow", "it was cancelled"))
        return FlowReply(n=request.n, flow=replace(flow.view(project.name), state="cancelled"))
    record.is_cancelled, record.cancelled_to = True, record.unrolled if record.ended_at else 0
    flow.page = ()
    flows.note(turn.state, flow)
    turn.changed_flows[flow.number] = flow
    turn.touch(project)
    return FlowReply(n=request.n, flow=flow.view(project.name))


def _named(state: State, project: str, name: str) -> tuple[Project, Flow]:
    found = state.projects.named(project)
    flow = state.flows.by_name.get((found.number, name))
    if flow is None:
        raise Rejected("unknown-flow", f'flow: project "{project}" has no flow "{name}", or it was forgotten')
    return found, flow


def _find(state: State, project: str, name: str) -> Flow | None:
    found = state.projects.by_name.get(project)
    return None if found is None else state.flows.by_name.get((found.number, name))


REQUESTS: Final = (
    RequestRule(FlowStage, asked(stage), _need_stage, grows=True),
    RequestRule(FlowSubmit, asked_by(submit), grows=True),
    RequestRule(FlowShow, asked_by(show), keeps=False),
    RequestRule(FlowList, asked(list_all), keeps=False, slow_ms=1.0),
    RequestRule(FlowTasks, *in_halves(list_tasks), keeps=False, slow_ms=5.0),
    RequestRule(FlowCancel, asked_for_change(cancel)),
)
