"""Propagation of a task's end to its children, along edges, in bounded steps.

    parent succeeds ──► edge satisfied ──last edge──► child ready or delayed
    parent fails ─────► on_parent_failure     fail ──► child failed, ``upstream``; run ──► as if satisfied; wait
                                              only ──► as if satisfied; the last edge releases the child if a parent
                                                       has failed, and drops it if none has

Rules:
1. A propagation is written with the end that causes it, and each step with its effects; so each edge is processed
   exactly once, even if the daemon stops in between.
2. An edge is satisfied once, by an end that comes after the edge was made.
3. Only a task that failed ``upstream``, or was dropped with a parent, is finished and has edges that are not satisfied;
   when all are, it is released like a blocked one.
4. Cancelled, expired and cleared parents count as failed, and so do parents in deleted projects; but a task that runs
   ``only`` after a failure needs one that has failed. Each step checks whether that still holds.
5. If an undo brings a cancelled parent back, a child that has passed it, and not been released, waits for it again.
   One that was dropped is blocked again, and so are those that were dropped with it. A child that an undo brings back
   with an update waits again for each parent of the update that it has passed and that lives again.
6. Propagations run in the order in which they began, EDGES_A_TURN edges a turn in all: an unfinished one takes the rest
   of the turn, so no later propagation of the same task or project overtakes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from taskqueue.core.model.edges import (
    FAIL,
    ONLY,
    OVERLOOKED,
    PASSED,
    RUN,
    SATISFIED,
    TO_CHILDREN,
    TO_PARENTS,
    UNSATISFIED,
    Edge,
    FoundEdge,
    FoundPropagation,
    Links,
    Mark,
    Propagation,
    PropagationKind,
    PropagationsRef,
    TaskRef,
)
from taskqueue.core.model.needs import Needs
from taskqueue.core.model.project import Project
from taskqueue.core.model.task import BLOCKED, CANCELLED, FAILED, LIVE, NO_TOKEN, SUCCESS, Task, key_time
from taskqueue.core.moves.edges import NONE_FAILED, drop
from taskqueue.core.moves.push import revive
from taskqueue.core.turn_state import TurnState
from taskqueue.protocol.values import Attempt

EDGES_A_TURN: Final = 1024


def need(turn: TurnState, wanted: Needs) -> None:
    """Look up the next edges."""
    limit = min(EDGES_A_TURN, turn.state.config.turn_tasks)
    wanted.propagations = PropagationsRef(turn.state.propagations.first, limit)


def step(turn: TurnState) -> None:
    """Process the edges that were looked up."""
    rests = {found.propagation.number: _propagate(turn, found) for found in turn.found.propagations}
    turn.changes.writes.propagations.update(rests)
    turn.state.propagations.advance(rests)


def settle(turn: TurnState) -> None:
    """Ask, at the end of the turn, for another one if edges are left."""
    queue, begun = turn.state.propagations, turn.changes.writes.propagations
    if begun:
        queue.note_last(max(begun))
    if queue.pending:
        turn.state.pending.begin("propagation")
        turn.more = True


def _of(propagation: Propagation) -> TaskRef:
    return TaskRef(propagation.project, propagation.taskid)


def _propagate(turn: TurnState, found: FoundPropagation) -> Propagation | None:
    """Process a page of edges; return the rest of the propagation, or None if it has ended."""
    return _BY_KIND[found.propagation.kind](turn, found)


def _propagate_success(turn: TurnState, found: FoundPropagation) -> Propagation | None:
    for each in found.edges.edges:
        _satisfy(turn, each, found.propagation.number, SATISFIED)
    return _rest(turn, found)


def _propagate_failure(turn: TurnState, found: FoundPropagation) -> Propagation | None:
    parent = turn.task_at(_of(found.propagation))
    if parent is not None and (parent.state in LIVE or parent.state == SUCCESS):
        return None
    for each in found.edges.edges:
        _fail(turn, each, found.propagation.number)
    return _rest(turn, found)


def _end_wait(turn: TurnState, found: FoundPropagation) -> Propagation | None:
    """End the wait for a forgotten task if it has no children."""
    ref = _of(found.propagation)
    if not found.edges.edges and ref in turn.changes.awaited:
        _await_no_more(turn, ref, ())
    return None


def _propagate_restoration(turn: TurnState, found: FoundPropagation) -> Propagation | None:
    for each in found.edges.edges:
        wait_again(turn, each)
    return _rest(turn, found)


def _update_edges(turn: TurnState, found: FoundPropagation) -> Propagation | None:
    """Delete the void edges of a child, and apply the failures of parents that it was given lately."""
    for each in found.edges.edges:
        mark = turn.changes.mark_of(each)
        if mark is None:
            continue
        child = turn.task_at(each.edge.child)
        if child is None or _links_of(child, mark) is None:
            _delete(turn, each.edge, found.others)
        elif _has_failed(turn, each.edge.parent):
            _fail(turn, each, found.propagation.number)
        elif _is_success(turn, each.edge.parent):
            _satisfy_imported(turn, each, found.propagation.number)
    return _rest(turn, found)


def _propagate_deletion(turn: TurnState, found: FoundPropagation) -> Propagation | None:
    """Process the edges of a deleted project: first those to children, then those to parents."""
    propagation = found.propagation
    to_parents = propagation.after.startswith(TO_PARENTS)
    for each in found.edges.edges:
        if each.edge.child.project == each.edge.parent.project:
            continue
        if to_parents:
            _delete(turn, each.edge, found.others)
        else:
            _fail(turn, each, propagation.number)
    if not found.edges.end:
        part = TO_PARENTS if to_parents else TO_CHILDREN
        return propagation._replace(after=part + found.edges.edges[-1].key)
    if not to_parents:
        return propagation._replace(after=TO_PARENTS)
    turn.changes.writes.dropped_edges.append(propagation.project)
    return None


_BY_KIND: Final[dict[PropagationKind, Callable[[TurnState, FoundPropagation], Propagation | None]]] = {
    "succeeded": _propagate_success,
    "failed": _propagate_failure,
    "forgotten": _end_wait,
    "edges": _update_edges,
    "retired": _propagate_deletion,
    "restored": _propagate_restoration,
}


def _rest(turn: TurnState, found: FoundPropagation) -> Propagation | None:
    propagation, edges = found.propagation, found.edges
    if not edges.end:
        return propagation._replace(after=edges.edges[-1].key)
    return None


# ------------------------------------------------------------------------------------------------ one edge


def _satisfy(turn: TurnState, found: FoundEdge, number: int, state: int) -> None:
    """Satisfy an unsatisfied edge that was made before ``number``; the last one releases the child."""
    child, links, mark = _unsatisfied(turn, found, number)
    if child is None or links is None:
        return
    turn.changes.writes.edges[found.edge] = Mark(state, mark.number)
    links.missing -= 1
    project = turn.state.projects.by_number[child.project]
    if not links.missing and links is child.links and _waits(child, links):
        if links.is_unneeded:
            drop(turn, child, NONE_FAILED)
        else:
            _release(turn, project, child)
    else:
        turn.changes.touch_links(child)
    turn.touch(project)


def _fail(turn: TurnState, found: FoundEdge, number: int) -> None:
    """Apply ``on_parent_failure`` of the child to an edge that was made before ``number``."""
    child, links, _ = _unsatisfied(turn, found, number)
    if child is None or links is None:
        return
    if links is child.links and child.state == CANCELLED and not links.dropped:
        return  # it counts if the task is to run after all: see edges.look_at_parents
    parent = turn.task_at(found.edge.parent)
    if links.on_failure in (RUN, ONLY):
        has_failed = parent is not None and parent.state == FAILED
        links.needed = links.needed or (has_failed and links.on_failure == ONLY)
        _satisfy(turn, found, number, OVERLOOKED if has_failed else PASSED)
    elif links.on_failure == FAIL and links is child.links and child.state == BLOCKED:
        end = drop if parent is not None and _is_dropped(parent) else fail_upstream
        end(turn, child, _name(turn, child, found.edge.parent))


def wait_again(turn: TurnState, found: FoundEdge, since: float = 0.0, *, is_back: bool = False) -> None:
    """Let a child wait again for a parent that it has passed, and that lives again.

    A child that was dropped at ``since`` (unix seconds) or later is blocked again; one that has been released goes on.
    At 0 the parent was dropped itself, and its child with it, perhaps without passing it.

    Args:
        is_back: True if the child comes back itself, from before its update could release it.
    """
    mark, child, parent = turn.changes.mark_of(found), turn.task_at(found.edge.child), turn.task_at(found.edge.parent)
    if mark is None or child is None or parent is None or parent.state in (SUCCESS, CANCELLED):
        return
    links, has_passed, is_dropped = _links_of(child, mark), mark.state == PASSED, _is_dropped(child)
    if links is None or child.bare or (is_dropped and key_time(child.key) < since):
        return
    # One that a user has cancelled was waiting if it still waits for others: else it may have been released.
    is_waiting = child.state == BLOCKED or is_dropped or (child.state == CANCELLED and links.missing > 0)
    if links is child.links and not is_waiting and not is_back:
        return
    if not has_passed and not (is_dropped and mark.state == UNSATISFIED and not since):
        return
    project = turn.state.projects.by_number[child.project]
    turn.touch(project)
    if has_passed:
        turn.changes.writes.edges[found.edge] = Mark(UNSATISFIED, mark.number)
        links.missing += 1
        turn.changes.touch_links(child)
    if is_dropped:
        revive(turn, project, child)
        if links.has_children:
            turn.changes.propagate("restored", *found.edge.child)
    if is_dropped or parent.state == FAILED:
        turn.changes.propagate("edges", *found.edge.child)


def _unsatisfied(turn: TurnState, found: FoundEdge, number: int) -> tuple[Task | None, Links | None, Mark]:
    """Find child, links and mark of a valid, unsatisfied edge that was made before ``number``; else None."""
    mark = turn.changes.mark_of(found)
    if mark is None or mark.state or mark.number > number:
        return None, None, found.mark
    child = turn.task_at(found.edge.child)
    return child, None if child is None else _links_of(child, mark), mark


def _links_of(child: Task, mark: Mark) -> Links | None:
    """Find the links that count an edge with this mark: the child's, or its deferred update's; None: it is void."""
    if child.links is not None and child.links.number == mark.number:
        return child.links
    lease = child.lease
    if lease is not None and lease.links is not None and lease.links.number == mark.number:
        return lease.links
    return None


def _satisfy_imported(turn: TurnState, found: FoundEdge, number: int) -> None:
    """Satisfy an edge to a success that an import has left to the daemon: it may drop the child."""
    _, links, _ = _unsatisfied(turn, found, number)
    if links is not None and links.on_failure == ONLY:
        _satisfy(turn, found, number, SATISFIED)


def _waits(child: Task, links: Links) -> bool:
    """Return whether the last edge of the child releases it: it is blocked, or has ended with a parent."""
    if child.state == CANCELLED:
        return links.dropped and not child.bare
    return child.state in (BLOCKED, FAILED) and not child.bare


def _is_dropped(task: Task) -> bool:
    return task.state == CANCELLED and task.links is not None and task.links.dropped


def _release(turn: TurnState, project: Project, child: Task) -> None:
    """Release a child; in a project that goes by due time, it is due now, behind what is due already."""
    until = child.exetime if child.state == BLOCKED and child.exetime > turn.now.wall else 0.0
    if not until and project.settings.order == "due":
        until = turn.now.wall
    if child.state != BLOCKED:
        revive(turn, project, child)
        return
    project.queue.put(turn.changes, child, until)
    turn.state.want_held(project, child)


def fail_upstream(turn: TurnState, child: Task, parent: str) -> None:
    """Fail a blocked task because of a failed parent; ``parent`` is the parent's name in the error."""
    project = turn.state.projects.by_number[child.project]
    turn.touch(project)
    project.totals.failed += 1
    project.queue.finish(turn.changes, child, FAILED, turn.now.wall)
    child.token = NO_TOKEN
    turn.note_attempt(child, Attempt(turn.now.wall, "upstream", error=f"upstream: {parent}"))


def _name(turn: TurnState, child: Task, parent: TaskRef) -> str:
    """Name a parent in a reason: its taskid, after its project if that is another one."""
    if parent.project == child.project:
        return parent.taskid
    project = turn.state.projects.by_number.get(parent.project)
    return f"{project.name if project is not None else 'a deleted project'}/{parent.taskid}"


def _delete(turn: TurnState, edge: Edge, others: Mapping[TaskRef, Sequence[Edge]]) -> None:
    """Delete an edge; after the last one to an unknown parent, that is not awaited any more."""
    turn.changes.writes.edges[edge] = None
    # If the parent became unknown in this turn, its other edges are unread: its propagation ``forgotten`` decides.
    if edge.parent in turn.changes.awaited and edge.parent in others:
        _await_no_more(turn, edge.parent, others[edge.parent])


def _await_no_more(turn: TurnState, parent: TaskRef, others: Sequence[Edge]) -> None:
    edges = turn.changes.writes.edges
    is_wanted = any(edges.get(edge, True) is not None for edge in others) or any(
        edge.parent == parent and edges[edge] is not None for edge in turn.changes.writes.new_edges
    )
    if not is_wanted:
        turn.changes.await_no_more(parent)


def _is_success(turn: TurnState, parent: TaskRef) -> bool:
    task = turn.task_at(parent)
    return task is not None and task.state == SUCCESS


def _has_failed(turn: TurnState, parent: TaskRef) -> bool:
    if parent.project not in turn.state.projects.by_number:
        return True
    task = turn.task_at(parent)
    return task is not None and task.state in (FAILED, CANCELLED)
