"""Steps of reruns: a task is run again, and others with it, each once, in the order in which they depend on each other.

    walk ──► order ──► reset ──► release          dry run: walk ──► order
    nothing is touched      tasks are changed

Rules:
1. Which tasks: by the scope, along edges of before the first step. What is pushed, or given other tasks to wait for,
   after it is not met. Parents come before their children, however many paths lead to these: see ``rerun_set``.
2. Before anything is reset a cancel leaves no trace; after that it lets what was reset run.
3. Bare tasks have nothing left to run: they are passed by, and what depends on them is met all the same.

``rerun_reset`` has what is done to tasks.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from taskqueue.core.admin import rerun_reset
from taskqueue.core.admin.rerun_reset import pass_by, rerun_of
from taskqueue.core.state import State
from taskqueue.core.tasks.edge_needs import FoundEdge
from taskqueue.core.tasks.links import Edge, TaskRef
from taskqueue.core.tasks.records import OperationProgress, OperationRecord
from taskqueue.core.tasks.rerun_set import FoundRerun, RerunCursor, RerunMember, RerunRef, RerunSet
from taskqueue.core.tasks.task import CANCELLED, FAILED, SUCCESS, Task
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Corrupt
from taskqueue.protocol.choices import RerunScope
from taskqueue.protocol.values import RerunLayer

STEP_EDGES: Final = 512
"""Tasks and edges of one step, about."""

LAYERS_SHOWN: Final = 100
TASKIDS_SHOWN: Final = 100
"""Taskids that the layers of a rerun name."""


def begin(turn: TurnState, record: OperationRecord, task: Task) -> None:
    """Begin with the task itself."""
    cursor, scope = _cursor(record), rerun_of(record.progress).scope
    rerun_set = RerunSet(record.progress.id, cursor, FoundRerun())
    _add(rerun_set, record.progress, task, is_meant=_is_meant(scope, task, is_first=True))
    if scope != "upstream-failed":
        rerun_set.append(0, 0)
    if scope == "task":
        rerun_set.begin("order")
    turn.changes.writes.reruns.append(rerun_set.writes)


def cancel(record: OperationRecord) -> bool:
    """Reset no further tasks; returns whether those that were have still to be released."""
    cursor = _cursor(record)
    if cursor.phase in ("walk", "order"):
        return False
    if cursor.phase == "reset":
        cursor.ordered = cursor.position
        cursor.phase, cursor.position = "release", 0
    return True


def ref(state: State, record: OperationRecord) -> RerunRef:
    """What the next step needs."""
    cursor = _cursor(record)
    limit = min(STEP_EDGES, state.config.turn_tasks)
    to_parents = rerun_of(record.progress).scope == "upstream-failed"
    first = state.propagations.first
    return RerunRef(record.progress.id, cursor.phase, cursor.position, cursor.after, limit, to_parents, first)


def take_step(turn: TurnState, record: OperationRecord, found: FoundRerun) -> None:
    """Go on where the rerun stands, or end it."""
    cursor, progress = _cursor(record), record.progress
    if turn.due.rerun is None or (cursor.phase, cursor.position) != (turn.due.rerun.phase, turn.due.rerun.position):
        return  # cancelled in this very turn
    record.bound = record.bound or turn.state.next_number()
    rerun_set = RerunSet(progress.id, cursor, found)
    if cursor.phase == "walk":
        _walk(turn, rerun_set, record)
    elif cursor.phase == "order":
        _order(turn, rerun_set, progress)
    elif cursor.phase == "reset":
        rerun_reset.reset(turn, rerun_set, record)
    else:
        rerun_reset.release(turn, rerun_set)
        if cursor.position == cursor.ordered:
            progress.ended_at = turn.now.wall
    turn.changes.writes.reruns.append(rerun_set.writes)


def _cursor(record: OperationRecord) -> RerunCursor:
    if record.cursor is None:
        raise Corrupt(f"operation {record.progress.id} is no rerun")
    return record.cursor


# ------------------------------------------------------------------------------------------------ walk


def _walk(turn: TurnState, rerun_set: RerunSet, record: OperationRecord) -> None:
    cursor, to_parents = rerun_set.cursor, rerun_of(record.progress).scope == "upstream-failed"
    for position, _, page in rerun_set.next_walked():
        for each in page.edges:
            if _counts(turn, each, record.bound):
                _follow(turn, rerun_set, record.progress, position, each.edge)
        if to_parents and page.end and not rerun_set.member(position).waiting:
            rerun_set.append(position, 0)
    if cursor.position == cursor.walked:
        rerun_set.begin("order")


def _counts(turn: TurnState, found: FoundEdge, bound: int) -> bool:
    """Whether the edge is valid, and of before the first step."""
    mark = turn.changes.mark_of(found)
    child = turn.task_at(found.edge.child)
    if mark is None or mark.number > bound or child is None or child.links is None:
        return False
    return child.links.number == mark.number


def _follow(turn: TurnState, rerun_set: RerunSet, progress: OperationProgress, position: int, edge: Edge) -> None:
    """Come to the task at the other end of an edge of the task at this place."""
    to_parents = rerun_of(progress).scope == "upstream-failed"
    end = edge.parent if to_parents else edge.child
    task = turn.task_at(end)
    if task is None or (to_parents and task.state == SUCCESS):
        return
    other = rerun_set.position(end)
    if other is None:
        other = _add(rerun_set, progress, task, is_meant=_is_meant(rerun_of(progress).scope, task, is_first=False))
    rerun_set.connect(*(other, position) if to_parents else (position, other))


def _add(rerun_set: RerunSet, progress: OperationProgress, task: Task, *, is_meant: bool) -> int:
    progress.seen += 1
    progress.known += is_meant and not task.bare
    pass_by(progress, is_meant and task.bare)
    return rerun_set.add(TaskRef(task.project, task.taskid), is_meant=is_meant and not task.bare)


def _is_meant(scope: RerunScope, task: Task, *, is_first: bool) -> bool:
    if scope in ("task", "downstream") or (scope == "upstream-failed" and is_first):
        return True
    return task.state in (FAILED, CANCELLED)


# ------------------------------------------------------------------------------------------------ order


def _order(turn: TurnState, rerun_set: RerunSet, progress: OperationProgress) -> None:
    cursor = rerun_set.cursor
    for ordered, children in rerun_set.next_with_children():
        member = rerun_set.member(ordered.position)
        if member.is_meant and not cursor.after:
            _note_layer(turn, progress, cursor, member, ordered.layer)
        for child in children:
            waiting = rerun_set.change(child)
            waiting.waiting -= 1
            if not waiting.waiting:
                rerun_set.append(child, ordered.layer + 1)
    if cursor.position == cursor.ordered:
        rerun_set.begin("reset")
        if progress.dry_run:
            progress.matched = progress.known
            progress.ended_at = turn.now.wall


def _note_layer(
    turn: TurnState, progress: OperationProgress, cursor: RerunCursor, member: RerunMember, layer: int
) -> None:
    """Count a task among its layer, and name it if there is room; layers without tasks that are meant are none."""
    rerun = rerun_of(progress)
    depth, layers = rerun.depth, rerun.layers
    if layer != cursor.layer:
        cursor.layer = layer
        depth += 1
        layers = [*layers, RerunLayer(0)] if depth <= LAYERS_SHOWN else layers
    if depth <= LAYERS_SHOWN:
        last = layers[-1]
        taskids = last.taskids
        if cursor.named < TASKIDS_SHOWN:
            cursor.named += 1
            taskids = [*taskids, _name(turn, progress, member)]
        layers = [*layers[:-1], RerunLayer(last.tasks + 1, taskids)]
    progress.rerun = replace(rerun, depth=depth, layers=layers)


def _name(turn: TurnState, progress: OperationProgress, member: RerunMember) -> str:
    project = turn.state.projects.by_number.get(member.project)
    if project is None or project.name == progress.projects[0]:
        return member.taskid
    return f"{project.name}/{member.taskid}"
