"""Bulk operations: the same done to many tasks, in the order of their taskids, a page a turn.

    bulk ──► operation with an id ──page──► page ──► … ──► ended: how many

Rules:
1. Each step and the record of how far it has come are one commit, so a restart goes on where it was.
2. No task is met twice, because taskids only grow on the way; none that arrived later is met, because its seq is above
   the operation's bound.
3. Operations take turns, a page each. A page is small, so the loop never stands still.
4. In a project that was cleared they wait until what is left of its tasks has been swept away.
5. ENDED_KEPT operations that have ended are remembered.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from fnmatch import fnmatchcase
from math import inf
from typing import Final, Literal

from taskqueue.core.intake import cancel, revive
from taskqueue.core.kept import FoundPage, Needs, OperationRecord, PageRef
from taskqueue.core.messages import Now
from taskqueue.core.operation import Operation
from taskqueue.core.project import Project
from taskqueue.core.projects import in_group
from taskqueue.core.replies import OperationReply, OperationsReply
from taskqueue.core.requests import Bulk, BulkAction, OperationList, OperationShow, TaskFilter
from taskqueue.core.sessions import Session
from taskqueue.core.state import State
from taskqueue.core.task import (
    CANCELLED,
    DELAYED,
    FAILED,
    PROCESSING,
    READY,
    STATE_NAMES,
    SUCCESS,
    Spec,
    Task,
    key_time,
)
from taskqueue.core.views import OperationView
from taskqueue.core.waiting import Waiter
from taskqueue.errors import Rejected

PAGE_TASKS: Final = 256
ENDED_KEPT: Final = 100
RUNNING_MOST: Final = 100
NAMES_SHOWN: Final = 20
"""Projects of an operation that are named."""

VIEW_BYTES: Final = 512
"""Of an operation in a message, besides the names of its projects."""


AnyAction = BulkAction | Literal["clear"]

SENSIBLE: Final[dict[BulkAction, tuple[int, ...]]] = {
    "retry": (DELAYED, SUCCESS, FAILED, CANCELLED),
    "cancel": (READY, DELAYED, PROCESSING),
    "reprioritise": (READY, DELAYED, PROCESSING),
}
"""States in which an action changes something."""

MEANT: Final[dict[AnyAction, tuple[int, ...]]] = {
    "retry": (FAILED,),
    "cancel": SENSIBLE["cancel"],
    "reprioritise": SENSIBLE["reprioritise"],
}
"""Those that are meant when none are named: nobody wants to crawl everything again by accident."""


# ------------------------------------------------------------------------------------------------ requests


def begin(state: State, now: Now, request: Bulk) -> OperationReply:
    """Start an operation."""
    if (request.project is None) == (not request.group):
        raise Rejected("malformed", "project: give either a project or a group")
    projects = in_group(state, request.group) if request.group else [state.project(request.project or "")]
    foreign = [name for name in request.filter.states if STATE_NAMES.index(name) not in SENSIBLE[request.action]]
    if foreign:
        reason = f"there is nothing to {request.action} in tasks that are {foreign[0]}"
        raise Rejected("malformed", f"filter.states: {reason}")
    if sum(each.record.view.action != "clear" for each in state.operations_running.values()) >= RUNNING_MOST:
        raise Rejected("full", f"there are {RUNNING_MOST} operations under way already; wait for one to end")
    number = state.number()
    view = _view(number, request.action, projects, now)
    view.group = request.group
    view.dry_run = request.dry_run
    numbers = [project.number for project in projects]
    _add(state, OperationRecord(view, request.filter, request.priority, numbers, number))
    return OperationReply(n=request.n, operation=copy(view))


def begin_sweep(state: State, now: Now, project: Project, known: int) -> None:
    """Start to forget what is left of tasks that were just dropped; ``known``: with them."""
    view = _view(state.number(), "clear", [project], now)
    view.known = known
    _add(state, OperationRecord(view, TaskFilter(), 0, [project.number], project.cleared))


def show(state: State, now: Now, session: Session, request: OperationShow) -> OperationReply | None:
    """How far an operation is; later, if it has not ended and the request can wait."""
    operation = state.operations.get(request.id)
    if operation is None:
        raise Rejected("unknown-operation", f"id: there is no operation {request.id}, or it was forgotten")
    if request.seconds and operation.running:
        operation.waiters.add(Waiter(session, request.n, now.boot + request.seconds))
        state.boot.note(("watch", request.id), now.boot + request.seconds)
        return None
    return OperationReply(n=request.n, operation=copy(operation.record.view))


def list_all(state: State, now: Now, request: OperationList) -> OperationsReply:
    """All operations, the newest first; as many as fit into a message."""
    reply = OperationsReply(n=request.n, operations=[])
    room = state.config.max_message
    for operation in reversed(state.operations.values()):
        view = operation.record.view
        room -= VIEW_BYTES + sum(map(len, view.projects))
        if room < 0:
            break
        reply.operations.append(copy(view))
    return reply


def answer(state: State, operation: Operation, until: float) -> None:
    """Tell those who wait no longer than ``until`` (boot-clock seconds)."""
    for waiter in operation.waiters.take(until):
        state.say(waiter.session, OperationReply(n=waiter.n, operation=copy(operation.record.view)), kept=True)


# ------------------------------------------------------------------------------------------------ steps


def need(state: State, wanted: Needs) -> None:
    """Have the next page read of the operation whose turn it is."""
    running = state.operations_running.values()
    state.paging = next((operation for operation in running if not _waits(state, operation.record)), None)
    if state.paging is not None:
        record = state.paging.record
        wanted.pages.append(
            PageRef(
                record.projects[0],
                record.after,
                min(PAGE_TASKS, state.config.turn_tasks),
                whole=bool(record.filter.url),
                errors=bool(record.filter.error),
            )
        )


def step(state: State, now: Now) -> None:
    """Take the step whose page was read."""
    operation = state.paging
    if operation is not None:
        state.paging = None
        # The project may have been cleared in this very turn, and the page be of before.
        if not _waits(state, operation.record):
            _take_page(state, now, operation.record, state.changes.found.pages[0])
        _pass_on(state, operation)
    state.more |= bool(state.operations_running)


def _waits(state: State, record: OperationRecord) -> bool:
    """The project that it is in must be swept first."""
    return record.view.action != "clear" and record.projects[0] in state.swept


def _pass_on(state: State, operation: Operation) -> None:
    """The next one has its turn."""
    record = operation.record
    state.changes.kept.operations.append(record)
    if operation.running:
        state.operations_running.move_to_end(record.view.id)
        return
    del state.operations_running[record.view.id]
    answer(state, operation, inf)
    _forget_oldest(state)


def _take_page(state: State, now: Now, record: OperationRecord, page: FoundPage) -> None:
    project = state.numbered.get(page.ref.project)
    if project is not None and not _is_superseded(project, record):
        errors = page.errors | _new_errors(state, page.ref)
        for known in page.tasks:
            record.view.matched += _meet(state, now, project, record, known, errors.get(known.taskid, ""))
        record.view.seen += len(page.tasks)
        if not page.end:
            record.after = page.tasks[-1].taskid
            return
    _finish_project(state, project, record)
    if not record.projects:
        record.view.ended_at = now.wall


def _is_superseded(project: Project, record: OperationRecord) -> bool:
    """It sweeps after a project that has been cleared again: so does the sweep that began then, from the start."""
    return record.view.action == "clear" and record.bound != project.cleared


def _new_errors(state: State, ref: PageRef) -> dict[str, str]:
    """Errors of attempts that ended in this very turn, by taskid."""
    if not ref.errors:
        return {}
    attempts = state.changes.kept.attempts
    return {kept.taskid: kept.attempt.error for kept in attempts if kept.project == ref.project}


def _meet(state: State, now: Now, project: Project, record: OperationRecord, known: Task, error: str) -> bool:
    """Do what the operation does to one task, if it is about it."""
    task = project.queue.find(project.number, known.taskid)
    if record.view.action == "clear":
        return task is None and _sweep(state, record, known)
    task = task or known
    if task.seq > record.bound or not _matches(record, task, task.spec or known.spec, error):
        return False
    if not record.view.dry_run:
        _change(state, now, project, task, record)
    return True


def _sweep(state: State, record: OperationRecord, task: Task) -> bool:
    if task.seq > record.bound or task.state > PROCESSING:
        return False
    state.changes.kept.forgotten.append(task)
    return True


def _matches(record: OperationRecord, task: Task, spec: Spec | None, error: str) -> bool:
    wanted, action = record.filter, record.view.action
    states = [STATE_NAMES.index(name) for name in wanted.states] or MEANT.get(action, ())
    if task.state not in states or (wanted.before and not 0 < _moment(task) < wanted.before):
        return False
    if wanted.error and not fnmatchcase(error, wanted.error):
        return False
    return not wanted.url or (spec is not None and fnmatchcase(spec.url, wanted.url))


def _moment(task: Task) -> float:
    """When it ended, or its last attempt did (unix seconds); 0: it was never run."""
    return key_time(task.key) if task.state > PROCESSING else task.lastcrawltime


def _change(state: State, now: Now, project: Project, task: Task, record: OperationRecord) -> None:
    state.touch(project)
    if record.view.action == "retry":
        revive(state, project, task)
    elif record.view.action == "cancel":
        cancel(state, now, project, task)
    else:
        project.queue.reprioritise(task, record.priority)
        state.want_held(project, task)


def _finish_project(state: State, project: Project | None, record: OperationRecord) -> None:
    record.projects = record.projects[1:]
    record.after = ""
    if project is not None and record.view.action == "clear" and project.cleared == record.bound:
        project.cleared = 0
        del state.swept[project.number]
        state.touch(project)


def _view(number: int, action: AnyAction, projects: Sequence[Project], now: Now) -> OperationView:
    return OperationView(
        id=number,
        action=action,
        projects=[project.name for project in projects[:NAMES_SHOWN]],
        dry_run=False,
        known=sum(project.queue.known for project in projects),
        seen=0,
        matched=0,
        began_at=now.wall,
    )


def _add(state: State, record: OperationRecord) -> None:
    operation = Operation(record)
    state.operations[record.view.id] = state.operations_running[record.view.id] = operation
    state.changes.kept.operations.append(record)


def _forget_oldest(state: State) -> None:
    ended = [number for number, operation in state.operations.items() if not operation.running]
    for number in ended[: max(0, len(ended) - ENDED_KEPT)]:
        del state.operations[number]
        state.changes.kept.dropped_operations.append(number)
