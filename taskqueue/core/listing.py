"""Lists of tasks for people: a page of one state's order, from its index.

A page looks at a bounded number of tasks, whatever the url glob lets through, at fewer if the glob makes that costly,
and fits into a message. It shows the store as it was when the turn began; what is being run is shown from memory, where
it always is.
"""

from __future__ import annotations

from heapq import nsmallest
from itertools import islice
from typing import Final

from taskqueue.core.glob import COST_MOST, glob
from taskqueue.core.intake import UTF8_MOST
from taskqueue.core.kept import FoundOrder, Needs, OrderRef
from taskqueue.core.messages import Now
from taskqueue.core.project import Project
from taskqueue.core.replies import TaskListReply
from taskqueue.core.requests import TaskList
from taskqueue.core.state import State
from taskqueue.core.task import DELAYED, PROCESSING, READY, STATE_NAMES, Spec, Task, key_time
from taskqueue.core.views import TaskRow
from taskqueue.errors import Rejected

LOOKED_AT: Final = 1000
"""Tasks that a page looks at when a glob may leave most of them out."""

LIST_BYTES: Final = 1 << 20
"""Of urls and bodies that are read for a page, about."""

HOLLOW_LOOKED_AT: Final = 32
"""Tasks being run whose specs are read for a page: it is not known how large they are."""

ROW_BYTES: Final = 128
"""Of a task in a message, besides its taskid and its url."""


def need(state: State, request: TaskList, wanted: Needs) -> None:
    """Have the page read."""
    project = state.projects.get(request.project)
    start = _start(request)
    if project is None or start is None:
        return
    ref = _ref(project, request, start)
    if ref.state == PROCESSING:
        _ask_hollow(state, project, ref)
    elif ref not in state.lists:
        # What has left the order is skipped: a store crosses each of its tombstones.
        state.lists[ref] = ref._replace(start=max(start, _low_key(project, ref.state)))
        wanted.lists.append(state.lists[ref])


def list_tasks(state: State, now: Now, request: TaskList) -> TaskListReply:
    """A page of a project's tasks in one state."""
    project = state.project(request.project)
    start = _start(request)
    if start is None:
        raise Rejected("malformed", f'after: expected the "next" of a page, got "{request.after}"')
    found = _found(state, project, _ref(project, request, start))
    reply = TaskListReply(n=request.n, tasks=[])
    room, cost = state.config.select_bytes, 0
    pattern = glob(request.url or "*")
    for task in found.tasks:
        if len(reply.tasks) == request.limit or room <= 0 or cost > COST_MOST or task.spec is None:
            reply.next = f"{task.key:x}"
            return reply
        cost += pattern.cost(task.spec.url)
        if pattern.matches(task.spec.url):
            reply.tasks.append(_row(now, task, task.spec))
            room -= ROW_BYTES + UTF8_MOST * (len(task.taskid) + len(task.spec.url))
    if found.tasks and not found.end:
        reply.next = f"{found.tasks[-1].key + 1:x}"
    return reply


def _start(request: TaskList) -> int | None:
    """The key from which on the page is wanted; None: it can't be read."""
    try:
        return max(0, int(request.after or "0", 16))
    except ValueError:
        return None


def _ref(project: Project, request: TaskList, start: int) -> OrderRef:
    limit = LOOKED_AT if request.url else request.limit
    return OrderRef(project.number, STATE_NAMES.index(request.state), start, limit, LIST_BYTES)


def _low_key(project: Project, state: int) -> int:
    if state == READY:
        return project.queue.ready.low_key()
    return project.queue.delayed.low_key() if state == DELAYED else 0


def _found(state: State, project: Project, ref: OrderRef) -> FoundOrder:
    """What was read; nothing, of a project that this very turn has made."""
    if ref.state == PROCESSING:
        tasks = _being_run(project, ref)
        return FoundOrder(ref, tasks[: ref.limit], end=len(tasks) <= ref.limit)
    return state.listed.get(state.lists.get(ref, ref)) or FoundOrder(ref, [], end=True)


def _being_run(project: Project, ref: OrderRef) -> list[Task]:
    """One more than the page has, if there are so many."""
    later = (task for task in project.queue.processing.leased.values() if task.key >= ref.start)
    return nsmallest(ref.limit + 1, later, key=lambda task: task.key)


def _ask_hollow(state: State, project: Project, ref: OrderRef) -> None:
    """Have some specs read that are in the store only, and let go of them again after the turn."""
    hollow = (task for task in _being_run(project, ref) if task.spec is None)
    for task in islice(hollow, HOLLOW_LOOKED_AT):
        state.ask(task)
        state.heavy.append(task)


def _row(now: Now, task: Task, spec: Spec) -> TaskRow:
    return TaskRow(
        taskid=task.taskid,
        url=spec.url,
        priority=task.priority,
        at=_at(now, task),
        retried=task.retried,
        lastcrawltime=task.lastcrawltime,
    )


def _at(now: Now, task: Task) -> float:
    if task.state == READY:
        return 0.0
    if task.state == DELAYED:
        return task.exetime
    if task.lease is not None:
        return now.wall - (now.boot - task.lease.selected_at)
    return key_time(task.key)
