"""Check of a flow before it is accepted: a page of its tasks at a time, from the first to the last.

    part of the flow ──► each task and its parents ──► problem, kept in ``Check`` ──last──► accepted
                                                                                       └──► refused

The check changes nothing until it accepts; rules 1, 2, 3 and 5 of ``steps/flows`` are about it.
"""

from __future__ import annotations

from collections.abc import Sequence

from taskqueue.core.model.edges import TaskRef
from taskqueue.core.model.flow import KNOWN_NAMED, Check, Flow
from taskqueue.core.model.needs import MemberRef, Needs
from taskqueue.core.model.project import Project
from taskqueue.core.model.task import Task
from taskqueue.core.model.waiters import CUT_OFF
from taskqueue.core.moves import flows
from taskqueue.core.moves.answer_waiters import answer
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Corrupt, Rejected
from taskqueue.protocol.flows import FlowReply
from taskqueue.protocol.values import NewTask


def need_check(turn: TurnState, flow: Flow, project: Project, part: Sequence[NewTask], wanted: Needs) -> None:
    """Look up the tasks of a part, and their parents, among the tasks of flows."""
    for item in part:
        flows.need(project, item.taskid, wanted)
        for parent in item.depends_on:
            of = project if isinstance(parent, str) else turn.state.projects.by_name.get(parent.project)
            if of is not None:
                flows.need(of, parent if isinstance(parent, str) else parent.taskid, wanted)


def look_at(turn: TurnState, flow: Flow, project: Project, part: Sequence[NewTask]) -> None:
    """Check a part; at the end, or as soon as it is clear, accept or refuse the flow."""
    check = flow.check
    if check is None:
        raise Corrupt(f"flow {flow.record.name!r} is not being checked")
    for item in part:
        _look_at_task(turn, flow, check, project, item.taskid)
        for parent in item.depends_on:
            if isinstance(parent, str):
                _look_at_parent(turn, flow, check, project, parent)
            else:
                of = turn.state.projects.by_name.get(parent.project)
                if of is None:
                    name = "" if check.is_scoped else f' "{parent.project}"'
                    check.problem = check.problem or f"depends_on: there is no project{name}"
                else:
                    if of.importing is not None:
                        name = "a project" if check.is_scoped else f'project "{of.name}"'
                        reason = f"{name} is being imported; submit it again when all of that is there"
                        check.problem = check.problem or f"depends_on: {reason}"
                    _look_at_parent(turn, flow, check, of, parent.taskid)
        check.checked += 1
    if check.problem or (check.known_count >= KNOWN_NAMED and not check.reuse) or check.checked == flow.record.tasks:
        _judge(turn, flow, check, project)


def _look_at_task(turn: TurnState, flow: Flow, check: Check, project: Project, taskid: str) -> None:
    if TaskRef(project.number, taskid) in turn.changes.awaited:
        check.awaited = check.awaited or taskid
    task = turn.find(project, taskid)
    other = _flow_of(turn, flow, task)
    if other is None:
        other = next((each for each in project.making.values() if _will_make(turn, each, flow, taskid)), None)
    if task is not None or other is not None:
        flows.note_known(flow, taskid)
    if other is not None and check.reuse:
        check.problem = check.problem or f'{taskid} belongs to flow "{other.record.name}", which has not ended'


def _flow_of(turn: TurnState, flow: Flow, task: Task | None) -> Flow | None:
    """Find the other flow that a task belongs to, if that has not ended."""
    number = task.links.flow if task is not None and task.links is not None else 0
    other = turn.state.flows.by_number.get(number)
    return None if other is None or other is flow or other.record.ended_at else other


def _will_make(turn: TurnState, other: Flow, flow: Flow, taskid: str) -> bool:
    index = turn.found.members.get(MemberRef(other.number, taskid), -1)
    return other is not flow and other.is_unrolling and index >= other.record.unrolled


def _look_at_parent(turn: TurnState, flow: Flow, check: Check, project: Project, taskid: str) -> None:
    """Check a parent of the next task of the flow."""
    index = turn.found.members.get(MemberRef(flow.number, taskid)) if project.number == flow.record.project else None
    if index is None:
        is_shown = project.number == flow.record.project or not check.is_scoped
        name = taskid if is_shown else "a task of another project"
        check.outside = check.outside or name
        if any(flows.blocks(turn, other, taskid) for other in project.making.values()):
            check.problem = check.problem or f"depends_on: {name} is still to be made by another flow; try again later"
    elif index >= check.checked:
        check.problem = check.problem or (
            f"depends_on: task {check.checked} waits for {taskid}, which is task {index}, but parents come first"
        )


def _judge(turn: TurnState, flow: Flow, check: Check, project: Project) -> None:
    """Accept the flow, or refuse it, as also if all who submitted it were cut off since: they may do less by now."""
    if flow.submitters.are_cut_off:
        flows.refuse(turn, flow, Rejected("forbidden", CUT_OFF))
    elif check.problem:
        flows.refuse(turn, flow, Rejected("state", check.problem))
    elif check.known and not check.reuse:
        reason = f"known already: {', '.join(check.known)}; with reuse they join the flow as they are"
        flows.refuse(turn, flow, Rejected("known-tasks", reason))
    elif check.awaited and check.outside:
        reason = (
            f"other tasks wait for {check.awaited} already, and the flow depends on {check.outside}, which is not a "
            "new task of it: that might close a cycle; submit the flow before the tasks that wait for it"
        )
        flows.refuse(turn, flow, Rejected("state", reason))
    else:
        _accept(turn, flow, check, project)


def _accept(turn: TurnState, flow: Flow, check: Check, project: Project) -> None:
    new = flow.record.tasks - min(check.known_count, flow.record.tasks)
    settings, queue = project.settings, project.queue
    if queue.live + project.reserved + new > settings.max_queue:
        reason = f'project "{project.name}" has no room for {new} more tasks: max_queue is {settings.max_queue:g}'
        flows.refuse(turn, flow, Rejected("full", reason))
        return
    if queue.known + project.reserved + new > settings.max_tasks:
        reason = f'project "{project.name}" has no room for {new} more tasks: max_tasks is {settings.max_tasks:g}'
        flows.refuse(turn, flow, Rejected("full", reason))
        return
    turn.state.flows.accept(flow)
    record = flow.record
    record.new, record.has_outside = new, bool(check.outside)
    record.began_at = turn.now.wall
    flow.check = None
    flow.page = ()
    turn.state.wall_timers.drop(("stage", flow.number))
    turn.changed_flows[flow.number] = flow
    project.armed = True
    turn.touch(project)
    answer(turn, flow.submitters, lambda waiter: FlowReply(n=waiter.n, flow=flow.view(project.name)))
