"""Flows, as far as all rules use them: counts of their tasks, and pushes beside them.

    task of a flow ──moves──► counted in the flow ──none is live──► ended: waiting requests are answered

Rules:
1. A flow's counts are written with the moves of its tasks. A forgotten task stays counted in its last state.
2. While a flow is being made, a push of a task that it is about to make is ignored in favour of the flow's own. A push
   during the check of the flow counts: the task is known when the flow is accepted.
3. If tasks of a flow wait for others outside, no task outside can wait for one that is not made yet: the two might
   close a cycle that no search has covered.
4. ``clear`` ends the flows of a project, ``reset`` and ``delete`` forget them.
5. ENDED_KEPT ended flows are remembered, with the lists of their tasks; of a cron entry ``keep_flows``. The last ended
   one of each entry is remembered besides, so that ``after_failure`` holds; of an entry that is gone until its turn.
6. A task that was dropped because no parent had failed is counted apart: it does not make its flow cancelled.

Flows are checked in ``steps/flow_check``, and made and cancelled, step by step, in ``steps/flows``.
"""

from __future__ import annotations

from typing import Final

from taskqueue.core.model.edges import Links
from taskqueue.core.model.flow import KNOWN_NAMED, Flow, counted_as
from taskqueue.core.model.needs import MemberRef, Needs
from taskqueue.core.model.project import Project
from taskqueue.core.model.task import CANCELLED, LIVE, Task
from taskqueue.core.model.waiters import FOR_EVER
from taskqueue.core.moves.answer_waiters import answer
from taskqueue.core.state import State
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Rejected
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.fields import Boot
from taskqueue.protocol.flows import FlowReply
from taskqueue.protocol.values import NewTask

STAGE_SECONDS: Final = 3600.0
"""Seconds after its last staged task in which a flow must be submitted; then it is dropped."""

_TASK_BYTES: Final = 64
"""Bytes of a staged task besides its texts."""

_FORGOTTEN: Final = Rejected("unknown-flow", "it ended so long ago that it is forgotten")

# ------------------------------------------------------------------------------------------------ counting


def join(turn: TurnState, flow: Flow, task: Task) -> None:
    """Add the task to the flow."""
    if task.links is None:
        task.tie(Links(flow=flow.number))
    else:
        task.links.flow = flow.number
    flow.record.counts[_counted_in(turn, task)] += 1
    turn.changes.touch_links(task)
    turn.changed_flows[flow.number] = flow


def count(turn: TurnState) -> None:
    """Count the moves of this turn so far."""
    by_number, states = turn.state.flows.by_number, turn.flow_states
    if not by_number:
        return
    for task in turn.changes.touched:
        links = task.links
        flow = by_number.get(links.flow) if links is not None and links.flow else None
        if flow is None or links is None:
            continue
        before, state = _counted_in(turn, task), counted_as(task.state, links)
        if before != state:
            flow.record.counts[before] -= 1
            flow.record.counts[state] += 1
            states[id(task)] = state
            turn.changed_flows[flow.number] = flow


def note_dropped(turn: TurnState, task: Task, *, dropped: bool) -> None:
    """Record whether the last cancel of a task dropped it; its flow may have counted it otherwise before."""
    links = task.links
    if links is not None and links.dropped != dropped:
        if task.kept_state == CANCELLED:
            turn.flow_states.setdefault(id(task), counted_as(CANCELLED, links))
        links.dropped = dropped


def _counted_in(turn: TurnState, task: Task) -> int:
    """Return the state in which the flow of the task has counted it."""
    known = turn.flow_states.get(id(task), task.kept_state)
    return known if task.links is None or id(task) in turn.flow_states else counted_as(known, task.links)


def settle(turn: TurnState) -> None:
    """End the flows without live tasks, and write the changed ones, at the end of the turn."""
    count(turn)
    touched = list(turn.changed_flows.values())
    for flow in touched:
        note(turn.state, flow)
        if flow.live and flow.is_settled:
            _go_on(turn, flow)
    for flow in touched:  # a second loop, so that no flow is forgotten that runs again
        if not flow.live and flow.is_settled and not flow.record.ended_at:
            _end(turn, flow)
    turn.changes.writes.flows += [flow.record for flow in turn.changed_flows.values()]


def _go_on(turn: TurnState, flow: Flow) -> None:
    """Run a flow again that may have ended or been cancelled; tasks that had not been made then are never made."""
    record = flow.record
    record.ended_at = 0.0
    record.is_cancelled = record.is_cancelled and record.unrolled < record.tasks
    turn.state.flows.go_on(flow)


def _end(turn: TurnState, flow: Flow) -> None:
    flow.record.ended_at = turn.now.wall
    tell(turn, flow)
    _look_at_last(turn.state)
    turn.state.flows.end(flow)
    while (oldest := turn.state.flows.too_old) is not None:
        drop(turn, oldest, _FORGOTTEN)
    if flow.record.cron:
        _end_of_cron(turn, turn.state.projects.by_number[flow.record.project], flow.record.cron)


def _look_at_last(state: State) -> None:
    """Stop sparing the last flow of a cron entry if that is gone; one at each end, so that these can't pile up."""
    last = state.flows.next_last()
    if last is not None and last.record.cron not in state.projects.by_number[last.record.project].settings.cron:
        state.flows.stop_sparing(last)


def _end_of_cron(turn: TurnState, project: Project, name: str) -> None:
    """Forget the oldest ended flows of a cron entry, and let a waiting tick run."""
    entry = project.settings.cron.get(name)
    if entry is None:
        return
    ended = [flow for flow in turn.state.flows.of_cron(project.number, name) if flow.record.ended_at]
    for flow in ended[: -entry.keep_flows]:
        drop(turn, flow, _FORGOTTEN)
    turn.state.plan_cron(project)


# ------------------------------------------------------------------------------------------------ life of a flow


def note(state: State, flow: Flow) -> None:
    """Record whether the flow has a step to take."""
    state.flows.note(flow)
    if flow.is_active:
        state.pending.begin("flows")
    project = state.projects.by_number.get(flow.record.project)
    if project is not None:
        project.note_flow(flow)


def staged_bytes(task: NewTask) -> int:
    """Return the bytes of a task in the list of its flow, approximately."""
    parents = sum([len(parent) if isinstance(parent, str) else len(parent.taskid) for parent in task.depends_on])
    return _TASK_BYTES + len(task.taskid) + len(task.url) + len(task.body) + parents


def tell(turn: TurnState, flow: Flow, until: Boot = FOR_EVER) -> None:
    """Answer the requests for the flow's end whose limit is at most ``until`` (boot-clock seconds)."""
    project = turn.state.projects.by_number[flow.record.project]
    answer(turn, flow.waiters, lambda waiter: FlowReply(n=waiter.n, flow=flow.view(project.name)), until)


def refuse(turn: TurnState, flow: Flow, refusal: Rejected) -> None:
    """Refuse a flow: it remains a stage, and the requests that submitted it get the reason."""
    flow.check = None
    flow.page = ()
    note(turn.state, flow)
    answer(turn, flow.submitters, lambda waiter: ErrorReply(n=waiter.n, code=refusal.code, reason=refusal.reason))


def drop(turn: TurnState, flow: Flow, refusal: Rejected) -> None:
    """Forget the flow and its staged tasks; waiting requests get the reason."""
    refuse(turn, flow, refusal)
    answer(turn, flow.waiters, lambda waiter: ErrorReply(n=waiter.n, code=refusal.code, reason=refusal.reason))
    state = turn.state
    project = state.projects.by_number.get(flow.record.project)
    if project is not None:
        project.forget_flow(flow)
    state.flows.drop(flow)
    turn.changed_flows.pop(flow.number, None)
    state.boot_timers.drop(("flow", flow.number))
    state.wall_timers.drop(("stage", flow.number))
    turn.changes.writes.dropped_flows.append(flow.number)


def end_all(turn: TurnState, project: Project) -> None:
    """Cancel the flows of a project whose live tasks have all been dropped, and counted until then."""
    for flow in turn.state.flows.of_project(project.number):
        record = flow.record
        if not record.is_accepted or not (flow.is_unrolling or flow.live):
            continue
        for state in LIVE:
            record.counts[CANCELLED] += record.counts[state]
            record.counts[state] = 0
        record.is_cancelled = True
        record.cancelled_to = record.unrolled
        flow.page = ()
        note(turn.state, flow)
        turn.changed_flows[flow.number] = flow


def forget_all(turn: TurnState, project: Project) -> None:
    """Forget the flows of a project that is deleted or reset."""
    for flow in turn.state.flows.of_project(project.number):
        drop(turn, flow, Rejected("unknown-project", f'project: "{project.name}" has been deleted'))


# ------------------------------------------------------------------------------------------------ beside a flow


def need(project: Project, taskid: str, wanted: Needs) -> None:
    """Look up whether a task belongs to a flow of the project that is being checked or made."""
    wanted.members += [MemberRef(number, taskid) for number in project.making]


def is_promised(turn: TurnState, project: Project, taskid: str) -> bool:
    """Return whether a flow is about to make the task."""
    return any(flow.is_unrolling and _is_ahead(turn, flow, taskid) for flow in project.making.values())


def note_arrival(turn: TurnState, project: Project, taskid: str, owner: str = "") -> None:
    """Record a new task as known in flows whose check has already passed it; ``owner`` is the flow that it is of."""
    for flow in project.making.values():
        if _is_checked(turn, flow, taskid):
            note_known(flow, taskid)
            if owner and flow.check is not None and flow.check.reuse:
                flow.check.problem = flow.check.problem or f'{taskid} belongs to flow "{owner}", which has not ended'


def note_known(flow: Flow, taskid: str) -> None:
    """Record that a task of the flow, which is being checked, is known already."""
    check = flow.check
    if check is None:
        return
    check.known_count += 1
    check.outside = check.outside or taskid
    if len(check.known) < KNOWN_NAMED:
        check.known.append(taskid)


def await_task(turn: TurnState, project: Project, taskid: str, field: str = "depends_on") -> None:
    """Prepare for a task to wait for this one of the project, as this field of a request says.

    Raises:
        Rejected: a flow is about to make this one, and has tasks that wait for others outside.
    """
    for flow in project.making.values():
        if blocks(turn, flow, taskid):
            reason = f'{taskid} is still to be made by flow "{flow.record.name}", which waits for other tasks itself'
            raise Rejected("state", f"{field}: {reason}; repeat it when the flow is running")
        if flow.check is not None and _is_checked(turn, flow, taskid):
            flow.check.awaited = taskid


def blocks(turn: TurnState, flow: Flow, taskid: str) -> bool:
    """Return whether no task outside the flow can wait for this one yet."""
    return flow.is_unrolling and flow.record.has_outside and _is_ahead(turn, flow, taskid)


def _is_ahead(turn: TurnState, flow: Flow, taskid: str) -> bool:
    return turn.found.members.get(MemberRef(flow.number, taskid), -1) >= flow.record.unrolled


def _is_checked(turn: TurnState, flow: Flow, taskid: str) -> bool:
    index = turn.found.members.get(MemberRef(flow.number, taskid))
    return flow.check is not None and index is not None and index < flow.check.checked
