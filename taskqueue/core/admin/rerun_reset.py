"""What a rerun does to tasks: it blocks them, parents before their children, and then lets go of those that can begin.

    reset      success, failed, cancelled, ready, delayed ─┐
               processing ──lease revoked──────────────────┴─► blocked
    release    held ──► ready, or still blocked by tasks that are not in the set

Rules:
1. Edges between tasks that were reset are no longer satisfied; the others stay as they are. All edges of the task get
   one new number, so that no success of before satisfies them; one of a parent that is not in the set, which they had
   still to be told of, does so at once.
2. What waits for no task of the set is *held* until the last one has been reset: so nothing runs on what is about to
   be reset, and no task runs twice.
3. What is processing loses its lease, so its report will be stale; an update that waits for its end takes effect.
4. A task is left as it is if it is gone or bare, or if it was pushed anew or given other parents after the first step.
5. What waits for a failed task that is not in the set fails again, as it is told to; the first task alone waits, as
   when it is retried by hand.
"""

from __future__ import annotations

from msgspec.structs import replace

from taskqueue.core.projects.project import Project
from taskqueue.core.rules.push import apply_deferred, revive
from taskqueue.core.tasks.edge_needs import FoundEdges
from taskqueue.core.tasks.links import SATISFIED, UNSATISFIED, Links, Mark, TaskRef
from taskqueue.core.tasks.records import OperationProgress, OperationRecord
from taskqueue.core.tasks.rerun_set import HELD, LEFT, RESET, RerunSet
from taskqueue.core.tasks.task import CANCELLED, FAILED, HELD_UNTIL, NO_TOKEN, PROCESSING, SUCCESS, Task, is_held
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Corrupt
from taskqueue.protocol.values import RerunView


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
            break  # there are many void edges, which are about to be deleted
        fate = _reset_task(turn, rerun_set, record, member.ref, page)
        progress.matched += fate != LEFT
        passed += fate == LEFT
        if fate != LEFT:
            rerun_set.change(position).fate = fate
    pass_by(progress, passed)
    if cursor.position == cursor.ordered:
        rerun_set.begin("release")


def pass_by(progress: OperationProgress, tasks: int) -> None:
    """Count tasks that are left as they are."""
    rerun = rerun_of(progress)
    progress.rerun = replace(rerun, passed=rerun.passed + tasks)


def rerun_of(progress: OperationProgress) -> RerunView:
    """What a rerun takes."""
    if progress.rerun is None:
        raise Corrupt(f"operation {progress.id} is no rerun")
    return progress.rerun


def release(turn: TurnState, rerun_set: RerunSet) -> None:
    """Let go of the next ones that are held."""
    for _, member, _ in rerun_set.next_ordered():
        task = turn.task_at(member.ref) if member.fate == HELD else None
        if task is not None and is_held(task):
            revive(turn, turn.state.projects.by_number[task.project], task)


def _reset_task(turn: TurnState, rerun_set: RerunSet, record: OperationRecord, ref: TaskRef, page: FoundEdges) -> int:
    """Block a task; returns its fate."""
    task = turn.task_at(ref)
    if task is None or task.bare or task.seq > record.bound or _has_new_parents(task, record):
        return LEFT
    project = turn.state.projects.by_number[ref.project]
    turn.touch(project)
    if task.state == PROCESSING:
        _revoke(turn, project, task)
    links = task.links
    is_first = (project.name, task.taskid) == (record.progress.projects[0], rerun_of(record.progress).taskid)
    is_blocked = links is not None and _reset_edges(turn, rerun_set, task, links, page, is_first=is_first)
    task.retried = 0
    task.note_put_off(0)
    task.token = NO_TOKEN
    project.queue.withdraw(turn.changes, task)
    task.held_back = task.timed_out = False
    project.queue.put_blocked(turn.changes, task, 0.0 if is_blocked else HELD_UNTIL)
    project.arm()
    return RESET if is_blocked else HELD


def _has_new_parents(task: Task, record: OperationRecord) -> bool:
    """Whether it was given other parents, also by an update that waits for the end of its lease."""
    links = task.lease.links if task.lease is not None and task.lease.deferred is not None else task.links
    return links is not None and links.number > record.bound


def _revoke(turn: TurnState, project: Project, task: Task) -> None:
    lease = task.lease
    turn.revoke(task)
    project.queue.put_ready(turn.changes, task)
    if lease is not None and lease.deferred is not None:
        apply_deferred(turn, project, task, lease, lease.deferred)


def _reset_edges(
    turn: TurnState, rerun_set: RerunSet, task: Task, links: Links, page: FoundEdges, *, is_first: bool
) -> bool:
    """Give the task's edges their new marks; returns whether it waits for a task of the set."""
    edges = turn.changes.writes.edges
    number = turn.state.next_number()
    missing, is_blocked, is_doomed = 0, False, False
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
            state = SATISFIED  # what told the edge of that success would find it renumbered
        edges[each.edge] = Mark(state, number)
        if state == UNSATISFIED:
            missing += 1
            is_blocked |= is_reset
            is_doomed |= parent is not None and parent.state in (FAILED, CANCELLED) and (is_reset or not is_first)
    if links.number:
        links.number, links.missing = number, missing
    if is_doomed:
        turn.changes.propagate("edges", task.project, task.taskid)
    return is_blocked


def _is_reset(rerun_set: RerunSet, ref: TaskRef) -> bool:
    position = rerun_set.position(ref)
    return position is not None and rerun_set.member(position).fate != LEFT
