"""Lists of tasks for users: a page of one state's order, from its index, from the start or from the end.

A list of several states has them one after the other; a page ends with a state, and the next page begins with the next
state that has tasks.

A page scans a bounded number of tasks, whether or not they match the globs, fewer if the globs are costly, and fits
into a message. It shows the store as it was when the turn began; processing tasks are shown from memory.

    ready       in the order of dispatch          finished     by the time of their end
    delayed     by the time they are due          processing   longest lease first

Finished and processing tasks can be listed newest first. Waiting tasks can't: their last ones are not news, and from
the end a store may have to cross all tasks that have left the order.
"""

from __future__ import annotations

from heapq import nlargest, nsmallest
from itertools import islice
from typing import Final, NamedTuple, get_args

from taskqueue.core.model.attempt_records import kind_of
from taskqueue.core.model.glob import COST_MOST, glob
from taskqueue.core.model.needs import FoundList, ListRef, Needs, page_with
from taskqueue.core.model.project import Project
from taskqueue.core.model.spec import Spec
from taskqueue.core.model.task import (
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
    came_within,
    is_held,
    key_time,
    time_key,
)
from taskqueue.core.request_rule import RequestRule, asked
from taskqueue.core.requests.tasks import shown
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Rejected
from taskqueue.protocol.choices import TaskState
from taskqueue.protocol.message_room import row_bytes
from taskqueue.protocol.tasks import TaskList, TaskListReply, TaskRow
from taskqueue.protocol.values import Attempt

LISTED: Final = tuple(map(STATE_NAMES.index, get_args(TaskState)))
"""Order of states in a list of several states."""

LOOKED_AT = 1000
"""Tasks scanned for a page, at most, if a glob may leave most of them out."""

ERRORS_LOOKED_AT: Final = 2048
"""Finished tasks scanned for their errors, at most; most errors are stored in the order itself."""

LIST_BYTES: Final = 1 << 20
"""Bytes of URLs and bodies read for a page, approximately, at most."""

HOLLOW_LOOKED_AT: Final = 32
"""Processing tasks whose specs are read for a page, at most: their sizes are unknown."""


def need(turn: TurnState, request: TaskList, wanted: Needs) -> None:
    """Look up the tasks of the page."""
    project = turn.state.projects.by_name.get(request.project)
    place = None if project is None else _first_place(project, request)
    if project is None or place is None or _refusal(request):
        return
    ref = _ref(project, request, place)
    if ref.state == PROCESSING:
        _ask_hollow(turn, project, ref)
    elif ref not in turn.lists:
        # Skips tasks that have left the order: a store would cross each of their tombstones.
        turn.lists[ref] = ref._replace(start=max(ref.start, _low_key(project, ref.state)))
        wanted.lists.append(turn.lists[ref])


def list_tasks(turn: TurnState, request: TaskList) -> TaskListReply:
    """Answer with a page of a project's tasks in one state or in several.

    Raises:
        Rejected: the project is unknown, ``after`` is not a cursor, or the request can't be answered for that state.
    """
    state = turn.state
    project = state.projects.named(request.project)
    place = _first_place(project, request)
    refusal = _refusal(request)
    if place is None or refusal:
        of_all = "" if request.state else " of a list of all states"
        raise Rejected("malformed", refusal or f'after: expected the "next" of a page{of_all}, got "{request.after}"')
    ref = _ref(project, request, place)
    is_looked_up = ref.state == PROCESSING or ref in turn.lists or not project.queue.counts[ref.state]
    if request.state is None and not is_looked_up:
        # Another request of this turn has changed which states have tasks, so a different state was looked up.
        return TaskListReply(n=request.n, tasks=[], next=f"{STATE_NAMES[ref.state]}:")
    found = _found(turn, project, ref)
    reply = TaskListReply(n=request.n, tasks=[], next=_cursor(project, request, place.state, found.next))
    room = state.config.select_bytes
    for task in found.tasks:
        if room <= 0 or task.spec is None:
            reply.next = _cursor(project, request, place.state, page_with(found.ref.newest, _place(task)))
            break
        if _is_late(request, task):
            state_name = "" if request.state else STATE_NAMES[task.state]
            attempt = found.attempts.get(task.taskid)
            row = _row(turn, task, task.spec, None if attempt is None else shown(turn, attempt), state_name)
            reply.tasks.append(row)
            room -= row_bytes(row)
    return reply


def _refusal(request: TaskList) -> str:
    """Explain why the request can't be answered; empty if it can."""
    if request.state is None:
        has_errors = _states(request) != [PROCESSING]
        return "" if has_errors or not request.error else "error: processing tasks have no error yet"
    if request.states:
        return "states: give state or states, not both"
    if request.newest and STATE_NAMES.index(request.state) in WAITING:
        return f"newest: {request.state} tasks are listed in the order of dispatch only"
    if request.error and request.state == "processing":
        return "error: processing tasks have no error yet"
    return ""


class Place(NamedTuple):
    """Start of a page: a state's order, and a key in it."""

    state: int
    after: int
    newest: bool


def _states(request: TaskList) -> list[int]:
    """States of a list of several, in its order."""
    return [each for each in LISTED if not request.states or STATE_NAMES[each] in request.states]


def _first_place(project: Project, request: TaskList) -> Place | None:
    """Find the start of the page; None if the cursor is invalid.

    The cursor of several states is that of one state after its name: ``failed:1f3``.
    """
    name, colon, key = ("", "", request.after) if request.state else request.after.partition(":")
    named = request.state or (name if colon else None)
    if named is not None and (named not in STATE_NAMES[1:] or _is_left_out(request, named)):
        return None
    if not request.state and request.after and (not colon or (named == "processing" and request.error)):
        return None
    which = STATE_NAMES.index(named) if named else _further(project, request, None) or _states(request)[0]
    newest = request.newest and which not in WAITING
    try:
        return Place(which, max(0, int(key, 16)) if key else NO_FLOOR if newest else 0, newest)
    except ValueError:
        return None


def _is_left_out(request: TaskList, state: str) -> bool:
    return bool(request.states) and request.state is None and state not in request.states


def _cursor(project: Project, request: TaskList, which: int, key: int | None) -> str:
    """Make the ``next`` of a page of this state; key None: the state has no further tasks."""
    if request.state is not None:
        return "" if key is None else f"{key:x}"
    if key is not None:
        return f"{STATE_NAMES[which]}:{key:x}"
    further = _further(project, request, which)
    return "" if further is None else f"{STATE_NAMES[further]}:"


def _further(project: Project, request: TaskList, which: int | None) -> int | None:
    """Find the next state, or the first one, that has tasks, and errors if the request asks for errors."""
    states = _states(request)
    if which is not None:
        states = states[states.index(which) + 1 :]
    without = PROCESSING if request.error else None
    return next((each for each in states if project.queue.counts[each] and each != without), None)


def _ref(project: Project, request: TaskList, place: Place) -> ListRef:
    which, after, newest = place
    low = time_key(request.since, 0) if which in OVER else 0
    return ListRef(
        project.number,
        which,
        start=low if newest else max(low, after),
        end=min(NO_FLOOR, after) if newest else NO_FLOOR,
        newest=newest,
        rows=request.limit,
        limit=_looked_at(request, which),
        limit_bytes=LIST_BYTES,
        url=request.url,
        error=request.error,
        attempts=which not in (PROCESSING, SUCCESS),
        pushed_since=request.pushed_since,
        pushed_before=request.pushed_before,
        ignore_case=request.ignore_case,
        job=request.job,
    )


def _looked_at(request: TaskList, which: int) -> int:
    """Compute how many tasks are scanned for the page, at most."""
    if request.error and which in OVER:
        return ERRORS_LOOKED_AT
    if request.error or request.url or request.job or (request.since and which in LIVE) or _asks_when_pushed(request):
        return LOOKED_AT
    return request.limit


def _asks_when_pushed(request: TaskList) -> bool:
    return request.pushed_since > 0 or request.pushed_before > 0


def _low_key(project: Project, state: int) -> int:
    if state == READY:
        return 0 if project.queue.slots is not None else project.queue.ready.low_key()
    return project.queue.delayed.low_key() if state == DELAYED else 0


def _is_late(request: TaskList, task: Task) -> bool:
    """Whether the task's last attempt ended since the requested time; finished tasks are selected by their key."""
    return task.state in OVER or not request.since or task.lastcrawltime >= request.since


def _found(turn: TurnState, project: Project, ref: ListRef) -> FoundList:
    """Return the page that was looked up; an empty one for a project created in this turn."""
    if ref.state == PROCESSING:
        return _found_run(project, ref)
    return turn.found.lists.get(turn.lists.get(ref, ref)) or FoundList(ref, [], {}, None)


def _found_run(project: Project, ref: ListRef) -> FoundList:
    """Collect processing tasks from memory. The page ends before a task whose URL is not in memory."""
    pattern = glob(ref.url or "*", ref.ignore_case)
    found = FoundList(ref, [], {}, None)
    cost = 0
    for count, task in enumerate(_being_run(project, ref)):
        if count == ref.limit or len(found.tasks) == ref.rows or cost > COST_MOST or task.spec is None:
            found.next = page_with(ref.newest, _place(task))
            break
        cost += pattern.cost(task.spec.url)
        if ref.job and task.job != ref.job:
            continue
        if pattern.matches(task.spec.url) and came_within(task, ref.pushed_since, ref.pushed_before):
            found.tasks.append(task)
    return found


def _being_run(project: Project, ref: ListRef) -> list[Task]:
    """Collect processing tasks, up to one more than the page has."""
    part = (task for task in project.queue.processing.leased.values() if ref.start <= _place(task) < ref.end)
    first = nlargest if ref.newest else nsmallest
    return first(ref.limit + 1, part, key=_place)


def _place(task: Task) -> int:
    """Return the task's key in the list; processing tasks are sorted by the time of dispatch."""
    return task.key if task.lease is None else time_key(task.lease.selected_at, task.seq)


def _ask_hollow(turn: TurnState, project: Project, ref: ListRef) -> None:
    """Ask for specs of some processing tasks, for this turn only."""
    hollow = (task for task in _being_run(project, ref) if task.spec is None)
    for task in islice(hollow, HOLLOW_LOOKED_AT):
        turn.ask(task)
        turn.state.hollow.release_body(task)


def _row(turn: TurnState, task: Task, spec: Spec, attempt: Attempt | None, state: str) -> TaskRow:
    now, at, fetcher, lease_seconds = turn.now, 0.0, "", 0.0
    if task.lease is not None:
        at = now.wall - (now.boot - task.lease.selected_at)
        fetcher = turn.state.sessions[task.lease.session].label
        lease_seconds = max(0.0, task.lease.deadline - now.boot)
    elif task.state != READY:
        at = 0.0 if is_held(task) else task.exetime if task.state == DELAYED else key_time(task.key)
    return TaskRow(
        taskid=task.taskid,
        url=spec.url,
        priority=task.priority,
        at=at,
        retried=task.retried,
        lastcrawltime=task.lastcrawltime,
        error="" if attempt is None else attempt.error,
        fetcher=fetcher if attempt is None else attempt.fetcher,
        lease_seconds=lease_seconds,
        kind="" if attempt is None else kind_of(attempt),
        put_off=task.put_off,
        state=state,
        pushed_at=float(task.pushed_at),
        job=task.job,
    )


REQUESTS: Final = (RequestRule(TaskList, asked(list_tasks), need, keeps=False, slow_ms=5.0),)
