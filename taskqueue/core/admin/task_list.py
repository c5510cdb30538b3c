"""Lists of tasks for people: a page of one state's order, from its index, from the start or from the end.

A page looks at a bounded number of tasks, whatever the globs let through, at fewer if these make that costly, and fits
into a message. It shows the store as it was when the turn began; what is being run is shown from memory, where it
always is.

    ready       in the order in which they will be handed out          over   by their ends
    delayed     as they fall due                           processing, longest held first

Backwards goes what is over or processing. What waits does not: there, what comes last is no news, and from the end a
store may have to cross all that has left the order.
"""

from __future__ import annotations

from heapq import nlargest, nsmallest
from itertools import islice
from typing import Final

from taskqueue.core.parts.glob import COST_MOST, glob
from taskqueue.core.projects.project import Project
from taskqueue.core.request_rule import RequestRule, asked
from taskqueue.core.tasks.attempt import AttemptRecord, kind_of
from taskqueue.core.tasks.needs import FoundList, ListRef, Needs, page_with
from taskqueue.core.tasks.spec import Spec
from taskqueue.core.tasks.task import (
    DELAYED,
    LIVE,
    NO_FLOOR,
    OVER,
    PROCESSING,
    READY,
    STATE_NAMES,
    SUCCESS,
    WAITING,
    Task,
    is_held,
    key_time,
    time_key,
)
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Rejected
from taskqueue.protocol.message_room import row_bytes
from taskqueue.protocol.replies import TaskListReply
from taskqueue.protocol.requests import TaskList
from taskqueue.protocol.views import TaskRow

LOOKED_AT = 1000
"""Tasks examined for a page when a glob may leave most of them out."""

ERRORS_LOOKED_AT: Final = 2048
"""Finished tasks examined for their errors, which are mostly stored in the order itself."""

LIST_BYTES: Final = 1 << 20
"""Approximate bytes of urls and bodies read for a page."""

HOLLOW_LOOKED_AT: Final = 32
"""Processing tasks whose specs are read for a page: their sizes are unknown."""


def need(turn: TurnState, request: TaskList, wanted: Needs) -> None:
    """Look up the page."""
    project = turn.state.projects.by_name.get(request.project)
    after = _after(request)
    if project is None or after is None or _refusal(request):
        return
    ref = _ref(project, request, after)
    if ref.state == PROCESSING:
        _ask_hollow(turn, project, ref)
    elif ref not in turn.lists:
        # What has left the order is skipped: a store crosses each of its tombstones.
        turn.lists[ref] = ref._replace(start=max(ref.start, _low_key(project, ref.state)))
        wanted.lists.append(turn.lists[ref])


def list_tasks(turn: TurnState, request: TaskList) -> TaskListReply:
    """A page of a project's tasks in one state.

    Raises:
        Rejected: the project is unknown, ``after`` is no cursor, or the request can't be answered for that state.
    """
    state = turn.state
    project = state.projects.named(request.project)
    after = _after(request)
    refusal = _refusal(request)
    if after is None or refusal:
        raise Rejected("malformed", refusal or f'after: expected the "next" of a page, got "{request.after}"')
    found = _found(turn, project, _ref(project, request, after))
    reply = TaskListReply(n=request.n, tasks=[], next="" if found.next is None else f"{found.next:x}")
    room = state.config.select_bytes
    for task in found.tasks:
        if room <= 0 or task.spec is None:
            reply.next = f"{page_with(request.newest, _place(task)):x}"
            break
        if _is_late(request, task):
            row = _row(turn, task, task.spec, found.attempts.get(task.taskid))
            reply.tasks.append(row)
            room -= row_bytes(row)
    return reply


def _refusal(request: TaskList) -> str:
    """Why the request can't be answered; empty if it can."""
    if request.newest and STATE_NAMES.index(request.state) in WAITING:
        return f"newest: what is {request.state} is listed in the order in which it will be handed out"
    if request.error and request.state == "processing":
        return "error: what is being processed has none yet"
    return ""


def _after(request: TaskList) -> int | None:
    """Where the page begins; None: the cursor is invalid."""
    try:
        return max(0, int(request.after, 16)) if request.after else NO_FLOOR if request.newest else 0
    except ValueError:
        return None


def _ref(project: Project, request: TaskList, after: int) -> ListRef:
    which = STATE_NAMES.index(request.state)
    low = time_key(request.since, 0) if which in OVER else 0
    return ListRef(
        project.number,
        which,
        start=low if request.newest else max(low, after),
        end=min(NO_FLOOR, after) if request.newest else NO_FLOOR,
        newest=request.newest,
        rows=request.limit,
        limit=_looked_at(request, which),
        limit_bytes=LIST_BYTES,
        url=request.url,
        error=request.error,
        attempts=which not in (PROCESSING, SUCCESS),
    )


def _looked_at(request: TaskList, which: int) -> int:
    """Tasks examined for the page, at most."""
    if request.error and which in OVER:
        return ERRORS_LOOKED_AT
    if request.error or request.url or (request.since and which in LIVE):
        return LOOKED_AT
    return request.limit


def _low_key(project: Project, state: int) -> int:
    if state == READY:
        return 0 if project.queue.slots is not None else project.queue.ready.low_key()
    return project.queue.delayed.low_key() if state == DELAYED else 0


def _is_late(request: TaskList, task: Task) -> bool:
    """Whether the task's last attempt ended since the requested time; finished tasks were selected by that already."""
    return task.state in OVER or not request.since or task.lastcrawltime >= request.since


def _found(turn: TurnState, project: Project, ref: ListRef) -> FoundList:
    """The looked-up page; an empty one for a project created in this very turn."""
    if ref.state == PROCESSING:
        return _found_run(project, ref)
    return turn.found.lists.get(turn.lists.get(ref, ref)) or FoundList(ref, [], {}, None)


def _found_run(project: Project, ref: ListRef) -> FoundList:
    """Processing tasks, from memory. The page ends before a task whose url is not in memory."""
    pattern = glob(ref.url or "*")
    found = FoundList(ref, [], {}, None)
    cost = 0
    for count, task in enumerate(_being_run(project, ref)):
        if count == ref.limit or len(found.tasks) == ref.rows or cost > COST_MOST or task.spec is None:
            found.next = page_with(ref.newest, _place(task))
            break
        cost += pattern.cost(task.spec.url)
        if pattern.matches(task.spec.url):
            found.tasks.append(task)
    return found


def _being_run(project: Project, ref: ListRef) -> list[Task]:
    """Processing tasks, one more than the page has, if there are so many."""
    part = (task for task in project.queue.processing.leased.values() if ref.start <= _place(task) < ref.end)
    first = nlargest if ref.newest else nsmallest
    return first(ref.limit + 1, part, key=_place)


def _place(task: Task) -> int:
    """The task's key in the list: for processing tasks, by the time of hand-out."""
    return task.key if task.lease is None else time_key(task.lease.selected_at, task.seq)


def _ask_hollow(turn: TurnState, project: Project, ref: ListRef) -> None:
    """Have some specs read for this turn only."""
    hollow = (task for task in _being_run(project, ref) if task.spec is None)
    for task in islice(hollow, HOLLOW_LOOKED_AT):
        turn.ask(task)
        turn.state.hollow.release_body(task)


def _row(turn: TurnState, task: Task, spec: Spec, attempt: AttemptRecord | None) -> TaskRow:
    now = turn.now
    row = TaskRow(
        taskid=task.taskid,
        url=spec.url,
        priority=task.priority,
        retried=task.retried,
        lastcrawltime=task.lastcrawltime,
        put_off=task.put_off,
    )
    if task.lease is not None:
        row.at = now.wall - (now.boot - task.lease.selected_at)
        row.fetcher = turn.state.sessions[task.lease.session].label
        row.lease_seconds = max(0.0, task.lease.deadline - now.boot)
    elif task.state != READY:
        row.at = 0.0 if is_held(task) else task.exetime if task.state == DELAYED else key_time(task.key)
    if attempt is not None:
        row.fetcher, row.error, row.kind = attempt.fetcher, attempt.error, kind_of(attempt)
    return row


REQUESTS: Final = (RequestRule(TaskList, asked(list_tasks), need, keeps=False, slow_ms=5.0),)
