"""Operations: bulk actions, group actions, reruns and undos, which take several turns and have an id.

    bulk, group-do, rerun, operation-undo ──► operation ──step──► step ──► … ──► ended, with counts

Rules:
1. Each step is one commit with the record of its progress, so a restart continues there. The projects of an operation
   are fixed, and written, when it begins.
2. Operations take turns, a step each. A step is small, so the loop never stalls.
3. In a cleared project a bulk operation waits until the cleared tasks have been swept.
4. RUNNING_MOST may run; ENDED_KEPT that have ended are remembered. So all fit into one list.
5. Reruns run one after the other, so that none resets tasks that another one relies on.
6. A group action applies to the projects that are in the group when it begins, in the order of their names, some in a
   turn. A small group takes only the turn of the request.

The steps on tasks are in ``bulk``, in ``rerun`` (along edges) and in ``undo``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from msgspec.structs import astuple

from taskqueue.core.model.edges import TaskRef
from taskqueue.core.model.needs import Needs
from taskqueue.core.model.now import Now
from taskqueue.core.model.operation import NAMES_SHOWN, Operation
from taskqueue.core.model.project import Project
from taskqueue.core.model.records import OperationProgress, OperationRecord
from taskqueue.core.model.rerun_set import RerunCursor
from taskqueue.core.model.session import Session
from taskqueue.core.model.task import STATE_NAMES
from taskqueue.core.model.undo_rows import UndoRows
from taskqueue.core.model.waiters import FOR_EVER, Waiter
from taskqueue.core.moves import answer_waiters, change_log, undo_rows
from taskqueue.core.moves.projects import in_group
from taskqueue.core.request_rule import Halves, RequestRule, Who, asked, asked_by, asked_for_change, in_halves
from taskqueue.core.requests.projects import act, action_detail, lost, pause_end
from taskqueue.core.state import State
from taskqueue.core.steps import bulk, rerun, undo
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Rejected
from taskqueue.protocol.callers import Scope
from taskqueue.protocol.fields import Boot
from taskqueue.protocol.message_room import operation_bytes, room_in
from taskqueue.protocol.operations import (
    Bulk,
    OperationCancel,
    OperationList,
    OperationReply,
    OperationShow,
    OperationsReply,
    OperationUndo,
    Rerun,
)
from taskqueue.protocol.projects import LOSSES, GroupDo
from taskqueue.protocol.values import Action, OperationAction, RerunProgress
from taskqueue.protocol.values import Operation as OperationView

RUNNING_MOST: Final = 100

# ------------------------------------------------------------------------------------------------ requests


def begin(turn: TurnState, by: Who, request: Bulk) -> OperationReply:
    """Start an operation on tasks.

    Raises:
        Rejected: the request is invalid, the project or group is unknown, a project is being imported, or RUNNING_MOST
            operations run already.
    """
    state, now = turn.state, turn.now
    if (request.project is None) == (not request.group):
        raise Rejected("malformed", "project: give either a project or a group")
    projects = in_group(turn, request.group) if request.group else [state.projects.named(request.project or "")]
    foreign = [name for name in request.filter.states if STATE_NAMES.index(name) not in bulk.SENSIBLE[request.action]]
    if foreign:
        reason = f"{request.action} does not apply to {foreign[0]} tasks"
        raise Rejected("malformed", f"filter.states: {reason}")
    for project in projects:
        project.check_whole()
    _see_room(state)
    progress = _begun(state, request.action, projects, now)
    progress.group = request.group
    progress.dry_run = request.dry_run
    progress.filter = request.filter
    progress.priority = request.priority if request.action == "reprioritise" else None
    progress.exetime = _exetime(request, now) if request.action == "reschedule" else None
    progress.known = sum(project.queue.known for project in projects)
    record = OperationRecord(progress, progress.id, actor=by.actor, address=by.address, patterns=_patterns(turn))
    record.rows = None if request.dry_run else UndoRows()
    _add(turn, Operation(record, [project.number for project in projects]))
    if not progress.dry_run:
        detail = f"operation {progress.number} begins: {_meant(progress)}"
        change_log.note(
            turn,
            by,
            f"task {progress.action}",
            project=request.project or "",
            group=progress.group,
            detail=detail,
        )
    return OperationReply(n=request.n, operation=_view(progress))


def begin_group(turn: TurnState, by: Who, request: GroupDo) -> OperationReply:
    """Start an operation on projects, and take its first step at once.

    Raises:
        Rejected: the request is invalid, the group is unknown, or the operation takes more than one step while
            RUNNING_MOST run already.
    """
    state = turn.state
    until = pause_end(turn, request)
    projects = _meant_projects(turn, request)
    if len(projects) > group_step_size(request.action):
        _see_room(state)
    progress = _begun(state, request.action, projects, turn.now)
    progress.group = request.group
    progress.known = len(projects)
    progress.until = until
    record = OperationRecord(progress, progress.id, actor=by.actor, address=by.address, patterns=_patterns(turn))
    record.detail = action_detail(
        turn, request, (each for each in projects if makes_sense(each, request.action, until))
    )
    operation = Operation(record, [project.number for project in projects])
    take_group_step(turn, operation)
    _add(turn, operation)
    return OperationReply(n=request.n, operation=_view(progress))


def _patterns(turn: TurnState) -> tuple[str, ...]:
    scope = turn.caller.scope
    return () if scope is None else scope.patterns


def _meant_projects(turn: TurnState, request: GroupDo) -> Sequence[Project]:
    """Select the projects of the group, or all, in the order of their names."""
    if bool(request.group) == request.all:
        raise Rejected("malformed", "group: give either a group or all")
    if not request.all:
        return in_group(turn, request.group)
    if request.action in LOSSES:
        raise Rejected("malformed", f"all: {request.action} drops tasks; name a group")
    projects = turn.state.projects
    return [projects.by_name[name] for name in projects.within(turn.caller.scope)]


def begin_rerun(turn: TurnState, request: Rerun, wanted: Needs) -> Halves:
    """Start a rerun: run a task again, and related tasks with it.

    Raises:
        Rejected: the project or the task is unknown, the project is being imported, or RUNNING_MOST operations run
            already.
    """
    state = turn.state
    project = state.projects.named(request.project)
    project.check_whole()
    wanted.tasks.append(TaskRef(project.number, request.taskid))
    by = yield
    task = turn.find(project, request.taskid)
    if task is None:
        raise Rejected("unknown-task", f'taskid: "{request.taskid}" is unknown in project "{project.name}"')
    _see_room(state)
    progress = _begun(state, "rerun", [project], turn.now)
    progress.dry_run = request.dry_run
    progress.rerun = RerunProgress(request.taskid, request.scope)
    record = OperationRecord(
        progress, 0, actor=by.actor, address=by.address, cursor=RerunCursor(), patterns=_patterns(turn)
    )
    rerun.begin(turn, record, task)
    _add(turn, Operation(record, [project.number]))
    if not progress.dry_run:
        detail = f"operation {progress.number} begins: {request.taskid} scope={request.scope}"
        change_log.note(turn, by, "task rerun", project=project.name, detail=detail)
    return OperationReply(n=request.n, operation=_view(progress))


def begin_undo(turn: TurnState, by: Who, request: OperationUndo) -> OperationReply:
    """Start the undo of an operation.

    Raises:
        Rejected: the operation is unknown or forgotten, or can't be undone (any more), or RUNNING_MOST operations run
            already.
    """
    state, operation = turn.state, _known(turn, request.id)
    if reason := undo.refusal(state.operations, operation):
        raise Rejected("state", f"id: operation {_name(operation.record.progress)} {reason}")
    _see_room(state)
    undone = operation.record.progress
    progress = _begun(state, "undo", [], turn.now)
    progress.projects, progress.group, progress.filter = undone.projects, undone.group, undone.filter
    record = OperationRecord(progress, progress.id, actor=by.actor, address=by.address, patterns=_patterns(turn))
    undo.take_over(operation, record)
    turn.changes.writes.operations.append(operation.record)
    _add(turn, Operation(record, []))
    detail = f"operation {progress.number} begins: {undone.action}, operation {undone.number}"
    project = undone.projects[0] if len(undone.projects) == 1 and not undone.group else ""
    change_log.note(turn, by, "operation undo", project=project, group=undone.group, detail=detail)
    return OperationReply(n=request.n, operation=_view(progress))


def cancel(turn: TurnState, by: Who, request: OperationCancel) -> OperationReply:
    """Cancel an operation; a rerun that has begun to reset tasks still has to release these.

    The rows that an undo has not reached can still be undone; it may still have to look at parents of the others.

    Raises:
        Rejected: the operation is unknown or forgotten, or has ended.
    """
    operation = _known(turn, request.id)
    record = operation.record
    if not operation.running or record.progress.cancelled:
        raise Rejected("state", f"operation {request.id} has ended already")
    record.progress.cancelled = True
    change_log.note(
        turn, by, "operation cancel", group=record.progress.group, detail=f"operation {_name(record.progress)}"
    )
    if operation.is_bulk:
        bulk.note(turn.state.projects.by_number.get(operation.project), record)
    goes_on = rerun.cancel(record) if operation.is_rerun else operation.is_undo and undo.cancel(turn, record)
    if not goes_on:
        record.progress.ended_at = turn.now.wall
    _keep(turn, operation)
    return OperationReply(n=request.n, operation=_view(record.progress))


def show(turn: TurnState, session: Session, request: OperationShow) -> OperationReply | None:
    """Answer with the progress of an operation: at once, or when it ends if the request waits.

    Raises:
        Rejected: the operation is unknown or forgotten, or too many requests wait already.
    """
    state, now = turn.state, turn.now
    operation = _known(turn, request.id)
    if request.seconds and operation.running:
        waiter = Waiter(session, request.n, now.boot + request.seconds)
        state.waits.add(operation.waiters, waiter)
        state.boot_timers.note(("operation", operation.id), now.boot + request.seconds)
        return None
    return _reply(operation, request.n)


def list_all(turn: TurnState, request: OperationList) -> OperationsReply:
    """Answer with operations, newest first, as many as fit into a message."""
    state = turn.state
    reply = OperationsReply(n=request.n, operations=[])
    room = room_in(state.config.max_message)
    scope = turn.caller.scope
    for operation in reversed(state.operations.by_id.values()):
        if scope is not None and not _is_seen(operation.record, scope):
            continue
        progress = operation.record.progress
        room -= operation_bytes(progress.projects, progress.filter, progress.rerun, progress.undo)
        if room < 0:
            break
        reply.operations.append(_view(progress))
    return reply


def _known(turn: TurnState, number: int) -> Operation:
    operation, scope = turn.state.operations.find(number), turn.caller.scope
    if operation is None or (scope is not None and not _is_seen(operation.record, scope)):
        raise Rejected("unknown-operation", f"id: there is no operation {number}, or it was forgotten")
    return operation


def _is_seen(record: OperationRecord, scope: Scope) -> bool:
    """Whether a sender that reaches these projects sees the operation: if all of its projects are among them.

    Beyond NAMES_SHOWN their names are not kept, and a rerun may yet reach others along edges; these are seen only by
    senders that reach the same projects as the author.
    """
    if record.patterns == scope.patterns:
        return True
    names, progress = record.progress.projects, record.progress.rerun
    if progress is not None and progress.scope != "task":
        return False
    return 0 < len(names) < NAMES_SHOWN and all(map(scope.has, names))


def answer(turn: TurnState, operation: Operation, until: Boot) -> None:
    """Answer the waiters whose limit is at most ``until`` (boot-clock seconds)."""
    answer_waiters.answer(turn, operation.waiters, lambda waiter: _reply(operation, waiter.n), until)


def _reply(operation: Operation, n: int) -> OperationReply:
    return OperationReply(n=n, operation=_view(operation.record.progress))


def _view(progress: OperationProgress) -> OperationView:
    return OperationView(*astuple(progress))


def _name(progress: OperationProgress) -> int:
    """Return the number that users see."""
    return progress.number or progress.id


def _meant(progress: OperationProgress) -> str:
    """Describe the filter of an operation and its arguments, for the log."""
    wanted = progress.filter
    parts = {
        "state": ",".join(wanted.states),
        "url": wanted.url,
        "error": wanted.error,
        "ignore_case": "yes" if wanted.ignore_case else "",
        "before": f"{wanted.before:.0f}" if wanted.before else "",
        "since": f"{wanted.since:.0f}" if wanted.since else "",
        "pushed_since": f"{wanted.pushed_since:.0f}" if wanted.pushed_since else "",
        "pushed_before": f"{wanted.pushed_before:.0f}" if wanted.pushed_before else "",
        "job": wanted.job,
        "priority": "" if progress.priority is None else str(progress.priority),
        "exetime": "" if progress.exetime is None else f"{progress.exetime:.0f}",
    }
    return " ".join(f"{name}={said}" for name, said in parts.items() if said) or "all"


def _exetime(request: Bulk, now: Now) -> float:
    return request.exetime if request.delay is None else now.wall + request.delay


# ------------------------------------------------------------------------------------------------ steps


def need(turn: TurnState, wanted: Needs) -> None:
    """Look up the next page of the operation whose turn it is."""
    state = turn.state
    running = state.operations.running.values()
    turn.due.paging = next((operation for operation in running if not _waits(state, operation)), None)
    if turn.due.paging is not None and turn.due.paging.is_bulk:
        turn.due.page = bulk.page_ref(state, turn.due.paging)
        wanted.pages.append(turn.due.page)
        bulk.need_updated(turn, turn.due.paging)
    elif turn.due.paging is not None and turn.due.paging.is_rerun:
        turn.due.rerun = wanted.rerun = rerun.ref(state, turn.due.paging.record)
    elif turn.due.paging is not None and turn.due.paging.is_undo:
        turn.due.undo = wanted.undo = undo.ref(state, turn.due.paging.record)


def step(turn: TurnState) -> None:
    """Take the step of the operation whose turn it is."""
    operation = turn.due.paging
    if operation is not None and operation.running:  # it may have been cancelled in this turn
        _take_step(turn, operation)
        _keep(turn, operation)
    turn.more |= bool(turn.state.operations.running)


def list_leases(turn: TurnState) -> None:
    """Write processing tasks by taskid, too, in projects that a bulk operation has reached: it pages by taskid."""
    for number in turn.entered:
        project = turn.state.projects.by_number.get(number)
        if project is not None:
            project.queue.list_leases(turn.changes)


def _enter(turn: TurnState, operation: Operation) -> None:
    """Record that the operation has reached another project."""
    if operation.running and operation.is_bulk:
        turn.entered[operation.project] = None


def _take_step(turn: TurnState, operation: Operation) -> None:
    if operation.is_rerun:
        # As below.
        if turn.found.rerun is not None and not _waits(turn.state, operation):
            rerun.take_step(turn, operation.record, turn.found.rerun)
    elif operation.is_undo:
        if turn.found.undo is not None and not _waits(turn.state, operation):
            undo.take_step(turn, operation.record, turn.found.undo)
    elif not operation.is_bulk:
        take_group_step(turn, operation)
    # The project may have been cleared in this turn, so that the page is outdated.
    elif turn.due.page is not None and not _waits(turn.state, operation):
        before = operation.record.position
        bulk.take_page(turn, operation, turn.found.pages[turn.due.page])
        if operation.record.position != before:
            _enter(turn, operation)


def _waits(state: State, operation: Operation) -> bool:
    """Whether the operation must wait: for a sweep of its project; as a rerun or an undo for any sweep."""
    if operation.is_rerun:
        reruns = (each.id for each in state.operations.running.values() if each.is_rerun)
        return bool(state.pending.swept) or operation.id != min(reruns)
    if operation.is_undo:
        return bool(state.pending.swept)
    return operation.is_bulk and operation.project in state.pending.swept


def _keep(turn: TurnState, operation: Operation) -> None:
    """Write the progress of the operation, and let the next one have its turn."""
    _log(turn, operation)
    writes = turn.changes.writes
    writes.operations.append(operation.record)
    if operation.running:
        turn.state.operations.pass_on(operation)
        return
    writes.members[operation.id] = []
    undo_rows.limit(turn, operation)
    if operation.is_rerun:
        writes.reruns = [each for each in writes.reruns if each.operation != operation.id]
        writes.dropped_reruns.append(operation.id)
    answer(turn, operation, FOR_EVER)
    _forget(turn, turn.state.operations.end(operation))


def _see_room(state: State) -> None:
    if len(state.operations.running) >= RUNNING_MOST:
        raise Rejected("full", f"operations: {RUNNING_MOST} are running already, the most allowed; wait until one ends")


def _begun(state: State, action: OperationAction, projects: Sequence[Project], now: Now) -> OperationProgress:
    return OperationProgress(
        id=state.next_number(),
        action=action,
        projects=[project.name for project in projects[:NAMES_SHOWN]],
        dry_run=False,
        known=0,
        seen=0,
        matched=0,
        began_at=now.wall,
        number=state.operations.next_number,
    )


def _log(turn: TurnState, operation: Operation) -> None:
    """Log the changes of the operation once it has ended, or once an entry is full."""
    record, progress = operation.record, operation.record.progress
    if not record.changed or (operation.running and len(record.changed) < change_log.NAMES_MOST):
        return
    what = f"{'operation' if operation.is_undo else 'task' if operation.is_bulk else 'project'} {progress.action}"
    detail = f"{record.detail}; operation {_name(progress)}".removeprefix("; ")
    names, count = record.changed, record.tasks
    record.changed, record.tasks = [], 0
    project = names.pop() if (operation.is_bulk or operation.is_undo) and not progress.group else ""
    by = Who(record.actor, record.address)
    change_log.note(
        turn,
        by,
        what,
        project=project,
        group=progress.group,
        count=count,
        detail=detail,
        projects=names,
        is_part=_is_part(operation, names),
    )


def _is_part(operation: Operation, names: Sequence[str]) -> bool:
    """Whether the operation is about other projects than these, too; of an undo only the first are known."""
    if not operation.is_undo:
        return len(names) < len(operation.members)
    projects = operation.record.progress.projects
    return len(projects) > 1 and (len(projects) >= NAMES_SHOWN or len(names) < len(projects))


def _add(turn: TurnState, operation: Operation) -> None:
    _log(turn, operation)
    writes = turn.changes.writes
    writes.operations.append(operation.record)
    _forget(turn, turn.state.operations.add(operation))
    if operation.running:
        turn.state.pending.begin("operations")
        writes.members[operation.id] = operation.members
        _enter(turn, operation)


def _forget(turn: TurnState, ended: int | None) -> None:
    """Delete the record of an operation that made room for a newer one, if there is one."""
    if ended is not None:
        turn.changes.writes.dropped_operations.append(ended)


# ------------------------------------------------------------------------------------------------ group actions


PROJECTS_A_STEP: Final = 64

LOST_A_STEP: Final = 8
"""Projects per step of actions that drop tasks: each drops ranges of the store."""


def group_step_size(action: str) -> int:
    """Return the number of projects per step."""
    return LOST_A_STEP if action in LOSSES else PROJECTS_A_STEP


def take_group_step(turn: TurnState, operation: Operation) -> None:
    """Apply the action to the next projects."""
    progress = operation.record.progress
    for _ in range(group_step_size(progress.action)):
        project = turn.state.projects.by_number.get(operation.project)
        progress.seen += 1
        progress.matched += project is not None and _made_sense(turn, operation.record, project)
        operation.go_on(turn.now)
        if not operation.running:
            return


def makes_sense(project: Project, action: Action, until: float) -> bool:
    """Whether the action is possible now; a pause with an end never replaces one without."""
    return (action in LOSSES or project.can(action)) and not (until and project.is_paused_for_good)


def _made_sense(turn: TurnState, record: OperationRecord, project: Project) -> bool:
    """Apply the action; return False, changing nothing, if it does not apply."""
    action = cast(Action, record.progress.action)
    if not makes_sense(project, action, record.progress.until):
        return False
    count = lost(project, action)
    try:
        act(turn, project, action, record.progress.until)
    except Rejected:
        return False
    record.changed.append(project.name)
    record.tasks += count
    return True


REQUESTS: Final = (
    RequestRule(Bulk, asked_for_change(begin), grows=True, slow_ms=3.0),
    RequestRule(GroupDo, asked_for_change(begin_group), slow_ms=3.0),
    RequestRule(Rerun, *in_halves(begin_rerun), grows=True),
    RequestRule(OperationCancel, asked_for_change(cancel)),
    RequestRule(OperationUndo, asked_for_change(begin_undo), grows=True, slow_ms=1.0),
    RequestRule(OperationShow, asked_by(show), keeps=False),
    RequestRule(OperationList, asked(list_all), keeps=False, slow_ms=1.0),
)
