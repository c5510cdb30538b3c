"""Steps of flows: check, make and cancel, a bounded number of tasks at a time.

    submitted ──page──► … ──page──► accepted, or refused ──page──► … ──page──► all made
                 checked                one commit          made, with their edges, as by a push

Rules:
1. Each step that makes or ends tasks is one commit with the record of its progress: a restart continues there. A check
   changes nothing; it is lost with the daemon, and a repeat of the request starts it again.
2. Parents come first, so edges within a flow can't close a cycle. Only a flow with a task that other tasks wait for
   already, and with a task that waits for one outside, could close one: it is refused.
3. A flow with known tasks is refused, unless these are reused: then they stay as they are. A task that becomes known
   while the flow is made, such as that of a cron entry, also joins the flow as it is.
4. Cancelling goes from the last task to the first, so that a child is cancelled before its parent and never fails
   because of it.
5. Checks run one at a time, each from its first task to its last, so that none misses what another one accepts; flows
   that are being made or cancelled take turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from taskqueue.core.model.edges import DELETED_PROJECT, POLICIES, UNSATISFIED, Edge, Links, Mark, TaskRef
from taskqueue.core.model.flow import Flow, FlowStep
from taskqueue.core.model.needs import Needs, StageRef
from taskqueue.core.model.project import Project
from taskqueue.core.model.task import LIVE, Task
from taskqueue.core.moves import flows
from taskqueue.core.moves.push import cancel, make, need_tasks, need_update
from taskqueue.core.state import State
from taskqueue.core.steps.flow_check import look_at, need_check
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Damaged
from taskqueue.protocol.choices import ParentFailure
from taskqueue.protocol.values import NewTask, TaskOf

TASKS_A_STEP: Final = 256

EDGES_A_STEP: Final = 4096
"""Parents of the tasks of a step, at most; but a step has at least one task."""


def need(turn: TurnState, wanted: Needs) -> None:
    """Look up the next tasks of the flow whose turn it is."""
    state = turn.state
    flow = _next(state)
    if flow is None:
        return
    step = turn.due.flow = FlowStep(flow, _part(flow))
    project = state.projects.by_number[flow.record.project]
    if flow.is_unrolling:
        need_tasks(turn, project.name, step.part, wanted)
    else:
        taskids = [item.taskid for item in step.part if item.taskid not in project.queue.tasks]
        wanted.tasks += [TaskRef(project.number, taskid) for taskid in taskids]
        for item in step.part:
            need_update(turn, project, item.taskid)
    if flow.check is not None:
        need_check(turn, flow, project, step.part, wanted)
    passed = flow.cursor + len(step.part)
    if len(step.part) == len(flow.page) and passed < _end_of(flow):
        step.ahead = _page_behind(flow, passed, min(TASKS_A_STEP, state.config.turn_tasks))
        wanted.stages.append(step.ahead)


def step(turn: TurnState) -> None:
    """Take the step of the flow whose turn it is."""
    state = turn.state
    due = turn.due.flow
    # It may have been cancelled or dropped in this turn.
    if due is not None and state.flows.active.get(due.flow.number) is due.flow and due.kind == due.flow.next_step:
        _take_step(turn, due)
        flows.note(state, due.flow)
        if due.flow.is_active and due.part and len(state.flows.active) > 1:
            due.flow.page = ()
            state.flows.pass_on(due.flow)
    turn.more |= bool(state.flows.active) and state.config.has_room


def _next(state: State) -> Flow | None:
    """Find the flow whose turn it is; of several checks only one takes steps, until it ends."""
    checked = [(not flow.check.checked, flow.number) for flow in state.flows.active.values() if flow.check is not None]
    _, first = min(checked, default=(True, 0))
    return next((flow for flow in state.flows.active.values() if flow.check is None or flow.number == first), None)


def _end_of(flow: Flow) -> int:
    return flow.record.unrolled if flow.is_being_cancelled else flow.record.tasks


def _page_behind(flow: Flow, passed: int, limit: int) -> StageRef:
    """Make the page after the first ``passed`` tasks."""
    if flow.is_being_cancelled:
        return StageRef(flow.number, flow.record.unrolled - 1 - passed, limit, backwards=True)
    return StageRef(flow.number, passed, limit)


def _part(flow: Flow) -> Sequence[NewTask]:
    edges = 0
    for count, item in enumerate(flow.page):
        edges += len(item.depends_on)
        if count and edges > EDGES_A_STEP:
            return flow.page[:count]
    return flow.page


def _take_step(turn: TurnState, due: FlowStep) -> None:
    flow = due.flow
    project = turn.state.projects.by_number[flow.record.project]
    if due.kind == "make" and not turn.state.config.has_room:
        return
    ahead = turn.found.stages[due.ahead].tasks if due.ahead is not None else ()
    if due.ahead is not None and not ahead:
        raise Damaged(f"flow {flow.record.name!r}: the store lacks its task {due.ahead.first}")
    if due.kind == "check":
        look_at(turn, flow, project, due.part)
    elif due.kind == "make":
        if _make(turn, flow, project, due.part) < len(due.part):
            flow.page = ()
            return
    else:
        _cancel(turn, flow, project, due.part)
    flow.page = flow.page[len(due.part) :] or ahead


# ------------------------------------------------------------------------------------------------ make, cancel


def _make(turn: TurnState, flow: Flow, project: Project, part: Sequence[NewTask]) -> int:
    """Make tasks and return how many; a task must wait for parents that another flow is still to make."""
    turn.changed_flows[flow.number] = flow
    turn.touch(project)
    for count, item in enumerate(part):
        if _must_wait(turn, flow, project, item):
            return count
        task = turn.find(project, item.taskid)
        if task is None:
            task = _make_task(turn, project, item)
        flows.join(turn, flow, task)
        flow.record.unrolled += 1
    return len(part)


def _must_wait(turn: TurnState, flow: Flow, project: Project, item: NewTask) -> bool:
    """Whether a task can't be made yet: another flow is still to make a parent, or a push waits for the task."""
    ref = TaskRef(project.number, item.taskid)
    if flow.record.has_outside and turn.state.waiting_pushes.gives_children_to(ref):
        return True
    for parent in item.depends_on:
        of = project if isinstance(parent, str) else turn.state.projects.by_name.get(parent.project)
        taskid = parent if isinstance(parent, str) else parent.taskid
        if of is not None and any(each is not flow and flows.blocks(turn, each, taskid) for each in of.making.values()):
            return True
    return False


def _make_task(turn: TurnState, project: Project, item: NewTask) -> Task:
    gone = [each for each in item.depends_on if isinstance(each, TaskOf) and _is_gone(turn, each.project)]
    if not gone:
        return make(turn, project, item)
    task = make(turn, project, replace(item, depends_on=tuple(each for each in item.depends_on if each not in gone)))
    _wait_for_deleted(turn, project, task, dict.fromkeys(each.taskid for each in gone), item.on_parent_failure)
    return task


def _is_gone(turn: TurnState, name: str) -> bool:
    """Whether a project has been deleted since the check: one that is being imported was not there then."""
    project = turn.state.projects.by_name.get(name)
    return project is None or project.importing is not None


def _wait_for_deleted(
    turn: TurnState, project: Project, task: Task, parents: Iterable[str], on_failure: ParentFailure
) -> None:
    """Let a new task wait for parents in projects that were deleted since it was staged, which have failed."""
    links = task.links or Links()
    if not links.number:
        links.number, links.on_failure = turn.state.next_number(), POLICIES.index(on_failure)
        task.tie(links)
        project.linked = True
    child = TaskRef(project.number, task.taskid)
    for parent in parents:
        edge = Edge(child, TaskRef(DELETED_PROJECT, parent))
        turn.changes.make_edge(edge, Mark(UNSATISFIED, links.number))
        links.missing += 1
    turn.changes.propagate("edges", *child)
    project.queue.put(turn.changes, task, task.exetime)


def _cancel(turn: TurnState, flow: Flow, project: Project, part: Sequence[NewTask]) -> None:
    turn.changed_flows[flow.number] = flow
    turn.touch(project)
    for item in part:
        flow.record.cancelled_to += 1
        task = turn.find(project, item.taskid)
        if task is not None and task.links is not None and task.links.flow == flow.number and task.state in LIVE:
            cancel(turn, project, task)
