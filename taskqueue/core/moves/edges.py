"""Edges from tasks to the tasks that they wait for: making and replacing them; see ``propagation`` for their effects.

    depends_on ──► parent is a success   edge satisfied
               ──► parent is unknown     edge not satisfied, parent awaited
               ──► any other state       edge not satisfied; a later turn finds parents that have failed

Rules:
1. Each time a task is given parents all of its edges get one new number, and former ones are void.
2. The edges of a deferred update count from its arrival on: the lease has them. The task gets them when the lease ends,
   also by a cancel.
3. A task that is forgotten while others wait for it is awaited. An awaited task is not known, counted or listed.
4. A task that runs ``only`` after a failure is *dropped* if all of its parents have ended without one: cancelled, with
   what depends on it. As its flow sees it, it was neither cancelled nor failed.
5. A failure of a parent leaves a task alone that a user has cancelled. If the task lives again, it counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from taskqueue.core.model.edges import (
    DELETED_PROJECT,
    ONLY,
    OVERLOOKED,
    POLICIES,
    RUN,
    SATISFIED,
    UNSATISFIED,
    Edge,
    Links,
    Mark,
    TaskRef,
)
from taskqueue.core.model.lease import Lease
from taskqueue.core.model.needs import Needs
from taskqueue.core.model.project import Project
from taskqueue.core.model.task import CANCELLED, FAILED, NO_TOKEN, SUCCESS, Task
from taskqueue.core.moves import flows
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Rejected
from taskqueue.protocol.choices import ParentFailure
from taskqueue.protocol.values import Attempt, NewTask

NONE_FAILED: Final = "no parent has failed"
"""Reason for which a task is dropped that runs only after a failure."""


def need(turn: TurnState, project: str, item: NewTask, wanted: Needs) -> None:
    """Look up the tasks that the item waits for; its project may be unknown as yet, and be made in this turn."""
    by_name = turn.state.projects.by_name
    for name, taskid in named(project, item):
        parent = by_name.get(name)
        if parent is not None and taskid not in parent.queue.tasks:
            wanted.tasks.append(TaskRef(parent.number, taskid))
            if parent.making:
                flows.need(parent, taskid, wanted)


def make_edges(turn: TurnState, project: Project, item: NewTask) -> Links:
    """Make the edges to the parents of an item, which have been looked up; the caller changes the task itself.

    Raises:
        Rejected: a parent is of an unknown project, or the task itself; nothing has changed.
    """
    _check(turn, project, item)
    parents = dict.fromkeys(named(project.name, item), UNSATISFIED)
    return tie(turn, project, item.taskid, parents, item.on_parent_failure)


def tie(
    turn: TurnState,
    project: Project,
    taskid: str,
    parents: Mapping[tuple[str, str], int],
    on_failure: ParentFailure,
    *,
    dropped: bool = False,
) -> Links:
    """Make edges from a task to its parents, which have been looked up; the caller changes the task itself.

    Args:
        parents: states of the edges by project and taskid; an unsatisfied one to a success is satisfied. An empty name
            stands for a deleted project, any other is known.
        dropped: True if the task was dropped (rule 4).
    """
    state, changes = turn.state, turn.changes
    child = TaskRef(project.number, taskid)
    links = Links(number=state.next_number(), on_failure=POLICIES.index(on_failure), dropped=dropped)
    has_failed = False
    _mark_linked(turn, project)
    for (name, parent_id), said in parents.items():
        mark = said
        if not name:
            ref, parent = TaskRef(DELETED_PROJECT, parent_id), None
            has_failed |= mark == UNSATISFIED
        else:
            of = state.projects.by_name[name]
            ref, parent = TaskRef(of.number, parent_id), turn.find(of, parent_id)
            _mark_linked(turn, of)
            if parent is None:
                _await(turn, ref)
            else:
                _have_children(turn, parent)
        if mark == UNSATISFIED and parent is not None:
            mark = SATISFIED if parent.state == SUCCESS else UNSATISFIED
            has_failed |= parent.state in (FAILED, CANCELLED)
        links.missing += mark == UNSATISFIED
        links.needed |= mark == OVERLOOKED
        changes.make_edge(Edge(child, ref), Mark(mark, links.number))
    if has_failed:
        changes.propagate("edges", *child)
    return links


def arrive(turn: TurnState, task: Task) -> None:
    """Tie a new task to the tasks that wait for it, or for a former one of which ``clear`` has left remains."""
    changes = turn.changes
    ref = TaskRef(task.project, task.taskid)
    stale = changes.forget_stale(*ref)
    former = stale.links if stale is not None else None
    if changes.arrive(ref) or (former is not None and former.has_children):
        links = task.links or Links()
        links.has_children = True
        task.tie(links)
    if former is not None and former.number:
        changes.propagate("edges", *ref)


def give(turn: TurnState, project: Project, task: Task, item: NewTask) -> None:
    """Give the task the parents of the item, which have been looked up, in place of its present ones.

    Raises:
        Rejected: see ``make_edges``.
    """
    replace_edges(turn, task, make_edges(turn, project, item) if item.depends_on else None)


def replace_edges(turn: TurnState, task: Task, edges: Links | None) -> None:
    """Give the task the parents of these edges, in place of its present ones."""
    links = task.links
    if links is None:
        if edges is not None:
            task.tie(edges)
        return
    if links.number:
        turn.changes.propagate("edges", task.project, task.taskid)
    edges = edges or Links()
    links.number, links.missing, links.on_failure = edges.number, edges.missing, edges.on_failure
    links.needed = edges.needed


def defer(turn: TurnState, project: Project, task: Task, lease: Lease, item: NewTask) -> None:
    """Keep the edges of a deferred update, in place of those of a former one."""
    edges = make_edges(turn, project, item) if item.depends_on else None
    if lease.links is not None:
        turn.changes.propagate("edges", task.project, task.taskid)
    lease.defer_edges(edges)


def look_at_parents(turn: TurnState, task: Task) -> None:
    """Let failures count that a task has missed while it was cancelled (rule 5), unless it fails with its parents."""
    links = task.links
    if links is not None and links.missing > 0 and links.on_failure in (RUN, ONLY):
        turn.changes.propagate("edges", task.project, task.taskid)


def drop_unneeded(turn: TurnState, task: Task) -> None:
    """Drop a task that has just been put into its order if none of its parents has failed and it runs only then."""
    if task.links is not None and task.links.is_unneeded:
        drop(turn, task, NONE_FAILED)


def drop(turn: TurnState, task: Task, reason: str) -> None:
    """Cancel a task with parents that is not needed, and note the reason."""
    project = turn.state.projects.by_number[task.project]
    turn.touch(project)
    flows.note_dropped(turn, task, dropped=True)
    project.queue.finish(turn.changes, task, CANCELLED, turn.now.wall)
    task.token = NO_TOKEN
    turn.note_attempt(task, Attempt(turn.now.wall, "upstream", error=f"upstream: {reason}"))


def _check(turn: TurnState, project: Project, item: NewTask) -> None:
    """Check the parents of an item.

    Raises:
        Rejected: one is of an unknown project, or the task itself.
    """
    for name, taskid in named(project.name, item):
        if name not in turn.state.projects.by_name:
            raise Rejected("unknown-project", f'depends_on: there is no project "{name}"')
        if name == project.name and taskid == item.taskid:
            raise Rejected("malformed", f"depends_on: {taskid} → {taskid}: it would wait for itself")
        of = turn.state.projects.by_name[name]
        if of.making:
            flows.await_task(turn, of, taskid)


def check_whole(turn: TurnState, project: Project, item: NewTask) -> None:
    """Check that no parent of an item is in a project whose tasks are still being imported, with edges of their own.

    Raises:
        Rejected: one is; the two might close a cycle that no search has covered.
    """
    for name, _ in named(project.name, item):
        of = turn.state.projects.by_name.get(name)
        if of is not None and of.importing is not None:
            reason = f'project "{name}" is being imported; push it again when all of that is there'
            raise Rejected("state", f"depends_on: {reason}")


def _await(turn: TurnState, ref: TaskRef) -> None:
    """Mark an unknown task as awaited; remains of a former one that ``clear`` has left count as failed."""
    stale = turn.changes.forget_stale(*ref)
    if stale is not None:
        turn.changes.forget_links(stale)
        turn.changes.note_end(stale, "failed")
    turn.changes.await_task(ref)


def _have_children(turn: TurnState, parent: Task) -> None:
    links = parent.links
    if links is None:
        parent.tie(Links(has_children=True))
    elif not links.has_children:
        links.has_children = True
    else:
        return
    turn.changes.touch_links(parent)


def _mark_linked(turn: TurnState, project: Project) -> None:
    """Record that the project has edges, which must be walked before it can be deleted."""
    if not project.linked:
        project.linked = True
        turn.touch(project)


def named(project: str, item: NewTask) -> Iterator[tuple[str, str]]:
    """Yield project and taskid of each task that an item of this project waits for."""
    for parent in item.depends_on:
        yield (project, parent) if isinstance(parent, str) else (parent.project, parent.taskid)
