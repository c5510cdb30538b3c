"""Steps of reruns: a task and related tasks run again, each once, parents before children.

    walk ──► order ──► reset ──► release          dry run: walk ──► order
    tasks unchanged    tasks change

    reset      success, failed, cancelled, ready, delayed ─┐
               processing ──lease revoked──────────────────┴─► blocked
    release    kept ──► ready, or still blocked by tasks outside of the set

Rules of the set:
1. The scope selects tasks, along edges from before the first step. Tasks that are pushed later, or get other parents
   later, are left out; so are tasks of projects that its author does not reach. Parents come before their children, on
   every path: see ``rerun_set``.
2. A cancel before the first reset leaves no trace; after that, tasks that were reset still run.
3. Bare tasks have no body to run: they are skipped, but tasks that depend on them are not.

Rules of its tasks:
1. Edges between tasks that were reset are no longer satisfied; other edges don't change. All edges of the task get one
   new number, so that no earlier success satisfies them; a success of a parent outside of the set that is still to be
   propagated satisfies its edge at once.
2. A task without parents in the set is *kept* until the last one has been reset: so no task runs on input that is about
   to be reset, and no task runs twice.
3. A processing task loses its lease, so its report will be stale; its deferred update takes effect.
4. A task is left as it is if it is gone or bare, or if it was pushed again or got other parents after the first step.
5. A task with a failed parent outside of the set fails again, as its ``on_parent_failure`` says; only the first task
   waits, as after a manual retry. A task that runs ``only`` after a failure is dropped again if no parent has failed,
   unless it is the first.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from taskqueue.core.model.edges import (
    OVERLOOKED,
    SATISFIED,
    UNSATISFIED,
    Edge,
    FoundEdge,
    FoundEdges,
    Links,
    Mark,
    TaskRef,
)
from taskqueue.core.model.operation import NAMES_SHOWN
from taskqueue.core.model.project import Project
from taskqueue.core.model.records import OperationProgress, OperationRecord
from taskqueue.core.model.rerun_set import HELD, LEFT, RESET, FoundRerun, RerunCursor, RerunMember, RerunRef, RerunSet
from taskqueue.core.model.task import CANCELLED, FAILED, HELD_UNTIL, NO_TOKEN, PROCESSING, SUCCESS, Task, is_held
from taskqueue.core.moves.edges import NONE_FAILED, drop
from taskqueue.core.moves.push import apply_deferred, revive
from taskqueue.core.state import State
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Corrupt
from taskqueue.protocol.callers import Scope
from taskqueue.protocol.choices import RerunScope
from taskqueue.protocol.values import RerunLayer, RerunProgress

STEP_EDGES: Final = 512
"""Tasks and edges of one step, approximately."""

LAYERS_SHOWN: Final = 100
TASKIDS_SHOWN: Final = 100
"""Taskids that the layers of a rerun name, at most."""


def begin(turn: TurnState, record: OperationRecord, task: Task) -> None:
    """Begin a rerun with the named task."""
    cursor, scope = _cursor(record), rerun_of(record.progress).scope
    rerun_set = RerunSet(record.progress.id, cursor, FoundRerun())
    _add(turn, rerun_set, record.progress, task, is_meant=_is_meant(scope, task, is_first=True))
    if scope != "upstream-failed":
        rerun_set.append(0, 0)
    if scope == "task":
        rerun_set.begin("order")
    turn.changes.writes.reruns.append(rerun_set.writes)


def cancel(record: OperationRecord) -> bool:
    """Stop resetting tasks; return whether tasks that were reset still have to be released."""
    cursor = _cursor(record)
    if cursor.phase in ("walk", "order"):
        return False
    if cursor.phase == "reset":
        cursor.ordered = cursor.position
        cursor.phase, cursor.position = "release", 0
    return True


def ref(state: State, record: OperationRecord) -> RerunRef:
    """Make the reference to what the next step reads."""
    cursor = _cursor(record)
    limit = min(STEP_EDGES, state.config.turn_tasks)
    to_parents = rerun_of(record.progress).scope == "upstream-failed"
    first = state.propagations.first
    return RerunRef(record.progress.id, cursor.phase, cursor.position, cursor.after, limit, to_parents, first)


def take_step(turn: TurnState, record: OperationRecord, found: FoundRerun) -> None:
    """Take the next step of the rerun, or end it."""
    cursor, progress = _cursor(record), record.progress
    if turn.due.rerun is None or (cursor.phase, cursor.position) != (turn.due.rerun.phase, turn.due.rerun.position):
        return  # cancelled in this turn
    record.bound = record.bound or turn.state.next_number()
    rerun_set = RerunSet(progress.id, cursor, found)
    if cursor.phase == "walk":
        _walk(turn, rerun_set, record)
    elif cursor.phase == "order":
        _order(turn, rerun_set, progress)
    elif cursor.phase == "reset":
        reset(turn, rerun_set, record)
    else:
        release(turn, rerun_set, record)
        if cursor.position >= cursor.ordered:  # of a cancelled one, more of the order may have been looked up
            progress.ended_at = turn.now.wall
    turn.changes.writes.reruns.append(rerun_set.writes)


def _cursor(record: OperationRecord) -> RerunCursor:
    if record.cursor is None:
        raise Corrupt(f"operation {record.progress.id} is not a rerun")
    return record.cursor


# ------------------------------------------------------------------------------------------------ walk


def _walk(turn: TurnState, rerun_set: RerunSet, record: OperationRecord) -> None:
    cursor, to_parents = rerun_set.cursor, rerun_of(record.progress).scope == "upstream-failed"
    reached = Scope(record.patterns) if record.patterns else None
    for position, _, page in rerun_set.next_walked():
        for each in page.edges:
            if _counts(turn, each, record.bound):
                _follow(turn, rerun_set, record.progress, position, each.edge, reached)
        if to_parents and page.end and not rerun_set.member(position).waiting:
            rerun_set.append(position, 0)
    if cursor.position == cursor.walked:
        rerun_set.begin("order")


def _counts(turn: TurnState, found: FoundEdge, bound: int) -> bool:
    """Whether the edge is valid, and older than the first step."""
    mark = turn.changes.mark_of(found)
    child = turn.task_at(found.edge.child)
    if mark is None or mark.number > bound or child is None or child.links is None:
        return False
    return child.links.number == mark.number


def _follow(
    turn: TurnState,
    rerun_set: RerunSet,
    progress: OperationProgress,
    position: int,
    edge: Edge,
    reached: Scope | None,
) -> None:
    """Add the task at the other end of an edge of the task at ``position``, if it is in a project that is reached."""
    to_parents = rerun_of(progress).scope == "upstream-failed"
    end = edge.parent if to_parents else edge.child
    task = turn.task_at(end)
    if task is None or (to_parents and task.state == SUCCESS):
        return
    if reached is not None and not reached.has(turn.state.projects.by_number[end.project].name):
        return
    other = rerun_set.position(end)
    if other is None:
        other = _add(
            turn, rerun_set, progress, task, is_meant=_is_meant(rerun_of(progress).scope, task, is_first=False)
        )
    rerun_set.connect(*(other, position) if to_parents else (position, other))


def _add(turn: TurnState, rerun_set: RerunSet, progress: OperationProgress, task: Task, *, is_meant: bool) -> int:
    name = turn.state.projects.by_number[task.project].name
    if name not in progress.projects and len(progress.projects) < NAMES_SHOWN:
        progress.projects = [*progress.projects, name]
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
    """Count a task in its layer, and name it if there is room; layers without selected tasks don't count."""
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


# ------------------------------------------------------------------------------------------------ reset and release


def reset(turn: TurnState, rerun_set: RerunSet, record: OperationRecord) -> None:
    """Reset the next tasks."""
    if not rerun_set.has_all_successes:
        return
    for begun in turn.changes.writes.propagations.values():
        if begun is not None and begun.kind == "succeeded":
            rerun_set.note_success(TaskRef(begun.project, begun.taskid), begun.number)
    progress, cursor = record.progress, rerun_set.cursor
    passed = 0
    for position, member, page in rerun_set.next_ordered():
        if not member.is_meant:
            continue
        if page is None or not page.end:
            break  # there are many void edges, which will be deleted soon
        fate = _reset_task(turn, rerun_set, record, member.ref, page)
        progress.matched += fate != LEFT
        passed += fate == LEFT
        if fate != LEFT:
            rerun_set.change(position).fate = fate
    pass_by(progress, passed)
    if cursor.position == cursor.ordered:
        rerun_set.begin("release")


def pass_by(progress: OperationProgress, tasks: int) -> None:
    """Count tasks that are skipped."""
    rerun = rerun_of(progress)
    progress.rerun = replace(rerun, passed=rerun.passed + tasks)


def rerun_of(progress: OperationProgress) -> RerunProgress:
    """Return the progress of a rerun."""
    if progress.rerun is None:
        raise Corrupt(f"operation {progress.id} is not a rerun")
    return progress.rerun


def release(turn: TurnState, rerun_set: RerunSet, record: OperationRecord) -> None:
    """Release the next tasks that the rerun keeps."""
    for _, member, _ in rerun_set.next_ordered():
        task = turn.task_at(member.ref) if member.fate == HELD else None
        if task is None or not is_held(task):
            continue
        project = turn.state.projects.by_number[task.project]
        if task.links is not None and task.links.is_unneeded and not _is_first(record, project, task):
            drop(turn, task, NONE_FAILED)
        else:
            revive(turn, project, task)


def _reset_task(turn: TurnState, rerun_set: RerunSet, record: OperationRecord, ref: TaskRef, page: FoundEdges) -> int:
    """Block a task and return its fate."""
    task = turn.task_at(ref)
    if task is None or task.bare or task.seq > record.bound or _has_new_parents(task, record):
        return LEFT
    project = turn.state.projects.by_number[ref.project]
    turn.touch(project)
    if task.state == PROCESSING:
        _revoke(turn, project, task)
    links = task.links
    is_first = _is_first(record, project, task)
    is_blocked = links is not None and _reset_edges(turn, rerun_set, task, links, page, is_first=is_first)
    task.retried = 0
    task.note_put_off(0)
    task.token = NO_TOKEN
    project.queue.withdraw(turn.changes, task)
    task.held_back = task.timed_out = False
    project.queue.put_blocked(turn.changes, task, 0.0 if is_blocked else HELD_UNTIL)
    project.arm()
    return RESET if is_blocked else HELD


def _is_first(record: OperationRecord, project: Project, task: Task) -> bool:
    return (project.name, task.taskid) == (record.progress.projects[0], rerun_of(record.progress).taskid)


def _has_new_parents(task: Task, record: OperationRecord) -> bool:
    """Whether the task got other parents, or will get some by a deferred update."""
    links = task.lease.links if task.lease is not None and task.lease.deferred is not None else task.links
    return links is not None and links.number > record.bound


def _revoke(turn: TurnState, project: Project, task: Task) -> None:
    lease = task.lease
    turn.revoke(task)
    project.queue.put_ready(turn.changes, task)
    if lease is not None:
        apply_deferred(turn, project, task, lease)


def _reset_edges(
    turn: TurnState, rerun_set: RerunSet, task: Task, links: Links, page: FoundEdges, *, is_first: bool
) -> bool:
    """Give the task's edges their new marks; return whether it waits for a task of the set."""
    edges = turn.changes.writes.edges
    number = turn.state.next_number()
    missing, is_blocked, is_doomed, is_needed = 0, False, False, False
    for each in page.edges:
        mark = turn.changes.mark_of(each)
        if mark is None or mark.number != links.number:
            continue
        parent = turn.task_at(each.edge.parent)
        is_reset = _is_reset(rerun_set, each.edge.parent)
        state = UNSATISFIED if is_reset else mark.state
        if state == UNSATISFIED and (
            (parent is not None and parent.state == SUCCESS)
            or (not is_reset and mark.number < rerun_set.untold_success(each.edge.parent))
        ):
            state = SATISFIED  # the propagation of that success would find the edge renumbered
        edges[each.edge] = Mark(state, number)
        is_needed |= state == OVERLOOKED
        if state == UNSATISFIED:
            missing += 1
            is_blocked |= is_reset
            is_doomed |= parent is not None and parent.state in (FAILED, CANCELLED) and (is_reset or not is_first)
    if links.number:
        links.number, links.missing, links.needed = number, missing, is_needed
    if is_doomed:
        turn.changes.propagate("edges", task.project, task.taskid)
    return is_blocked


def _is_reset(rerun_set: RerunSet, ref: TaskRef) -> bool:
    position = rerun_set.position(ref)
    return position is not None and rerun_set.member(position).fate != LEFT
