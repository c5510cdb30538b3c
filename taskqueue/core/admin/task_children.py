"""Which tasks wait for a task, or have waited for it: a page of its children.

A page begins after an edge of the store, and has a bounded number of edges; those of tasks that have been given others
to wait for since are void, and left out. Edges that are made in the very turn of the request are not seen.
"""

from __future__ import annotations

from typing import Final

from taskqueue.core.request_rule import RequestRule, asked
from taskqueue.core.tasks.edge_needs import EdgesRef
from taskqueue.core.tasks.links import UNSATISFIED
from taskqueue.core.tasks.needs import Needs, TaskRef
from taskqueue.core.tasks.task import STATE_NAMES
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Rejected
from taskqueue.protocol.tasks import ChildView, TaskChildren, TaskChildrenReply


def show_children(turn: TurnState, message: TaskChildren) -> TaskChildrenReply:
    """A page of the task's children."""
    projects, after = turn.state.projects, _after(message)
    project = projects.named(message.project)
    if turn.find(project, message.taskid) is None:
        raise Rejected("unknown-task", f'taskid: "{message.taskid}" is unknown in project "{project.name}"')
    if after is None:
        raise Rejected("malformed", f'after: expected the "next" of a page, got "{message.after}"')
    reply = TaskChildrenReply(n=message.n, children=[])
    page = turn.found.edges.get(EdgesRef(False, project.number, message.taskid, after, message.limit))
    if page is None:  # the project was made in this very turn
        return reply
    for each in page.edges:
        of = projects.by_number.get(each.edge.child.project)
        mark, child = turn.changes.mark_of(each), turn.find(of, each.edge.child.taskid) if of is not None else None
        if of is None or mark is None or child is None or child.links is None or child.links.number != mark.number:
            continue
        reply.children.append(
            ChildView(of.name, child.taskid, STATE_NAMES[child.state], waits=mark.state == UNSATISFIED)
        )
    if not page.end:
        reply.next = page.edges[-1].key.hex()
    return reply


def _after(message: TaskChildren) -> bytes | None:
    """The key of the edge after which the page begins; None: it is none."""
    try:
        return bytes.fromhex(message.after)
    except ValueError:
        return None


def _need(turn: TurnState, request: TaskChildren, wanted: Needs) -> None:
    project, after = turn.state.projects.by_name.get(request.project), _after(request)
    if project is None or after is None:
        return
    if request.taskid not in project.queue.tasks:
        wanted.tasks.append(TaskRef(project.number, request.taskid))
    wanted.edges.append(EdgesRef(False, project.number, request.taskid, after, request.limit))


REQUESTS: Final = (RequestRule(TaskChildren, asked(show_children), _need, keeps=False, slow_ms=5.0),)
