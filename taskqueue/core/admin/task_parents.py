"""What a task waits for, or has waited for, and what that has left behind: a page of its parents.

    task ──edges──► parents ──► results        as many as have room in a message

A page begins at a place among the edges, void ones included; those that are void are left out. While parents of a task
change, pages of before and after that need not fit together.
"""

from __future__ import annotations

from typing import Final

from taskqueue.core.admin.task_requests import result_of
from taskqueue.core.request_rule import RequestRule, asked
from taskqueue.core.tasks.edge_needs import ParentsRef
from taskqueue.core.tasks.links import UNSATISFIED, Links, Mark
from taskqueue.core.tasks.needs import Needs, TaskRef
from taskqueue.core.tasks.task import STATE_NAMES, Task
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Rejected
from taskqueue.protocol.fields import NIL
from taskqueue.protocol.message_room import parent_bytes, room_in
from taskqueue.protocol.tasks import ParentView, TaskParents, TaskParentsReply

PAGE_BYTES: Final = 1 << 20
"""Bytes of results at which a page is full."""


def show_parents(turn: TurnState, message: TaskParents) -> TaskParentsReply:
    """A page of the task's parents."""
    state = turn.state
    project = state.projects.named(message.project)
    task = turn.find(project, message.taskid)
    if task is None:
        raise Rejected("unknown-task", f'taskid: "{message.taskid}" is unknown in project "{project.name}"')
    reply = TaskParentsReply(n=message.n, parents=[])
    if task.links is None or not task.links.number:
        return reply
    page = turn.found.parents.get(_ref(turn, project.number, message))
    if page is None or _has_new_edges(turn, task, task.links):
        raise Rejected("changed", "taskid: it has just been given other tasks to wait for; ask again")
    room = min(PAGE_BYTES, room_in(state.config.max_message))
    for place, each in enumerate(page.edges, message.after):
        mark = turn.changes.mark_of(each)
        if mark is None or mark.number != task.links.number:
            continue
        parent = _view(turn, TaskRef(*each.edge.parent), mark)
        room -= parent_bytes(parent)
        if room < 0 and reply.parents:
            reply.next = place
            return reply
        reply.parents.append(parent)
    if not page.end:
        reply.next = message.after + len(page.edges)
    return reply


def _has_new_edges(turn: TurnState, task: Task, links: Links) -> bool:
    """Whether this very turn has made the task's edges: they are not among those that were looked up."""
    child = TaskRef(task.project, task.taskid)
    edges = turn.changes.writes.new_edges
    return bool(edges) and any(
        mark is not None and edge.child == child and mark.number == links.number
        for edge, mark in turn.changes.writes.edges.items()
        if edge in edges
    )


def _view(turn: TurnState, ref: TaskRef, mark: Mark) -> ParentView:
    is_satisfied = mark.state != UNSATISFIED
    of = turn.state.projects.by_number.get(ref.project)
    parent = turn.find(of, ref.taskid) if of is not None else None
    if of is None or parent is None:
        return ParentView(of.name if of is not None else "", ref.taskid, "unknown", is_satisfied)
    result = result_of(turn, of, parent)
    return ParentView(of.name, ref.taskid, STATE_NAMES[parent.state], is_satisfied, NIL if result is None else result)


def _ref(turn: TurnState, number: int, message: TaskParents) -> ParentsRef:
    return ParentsRef(number, message.taskid, message.after, min(PAGE_BYTES, room_in(turn.state.config.max_message)))


def _need(turn: TurnState, request: TaskParents, wanted: Needs) -> None:
    project = turn.state.projects.by_name.get(request.project)
    if project is not None:
        if request.taskid not in project.queue.tasks:
            wanted.tasks.append(TaskRef(project.number, request.taskid))
        wanted.parents.append(_ref(turn, project.number, request))


REQUESTS: Final = (RequestRule(TaskParents, asked(show_parents), _need, keeps=False, slow_ms=5.0),)
