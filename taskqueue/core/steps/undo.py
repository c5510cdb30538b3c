"""Steps of undos: the tasks that a bulk operation changed become again what they were, a page of rows at a time.

    row ──► has the task changed since?  no ──► state, due time, priority, retries and wait as in the row
                                         yes ─► it stays, and is counted

| operation | its task has not changed since if it |
|---|---|
| retry | is still to be run for the first time, with the same priority |
| cancel | is cancelled |
| reprioritise | is live and has the priority that the operation gave it |
| reschedule | waits for the operation's time, or that has come and it has not run |

and in each case has the token that it had after the operation: see ``moves/undo_rows``.

Rules:
1. A task that was running comes back ready: its lease was revoked. An update that was deferred until its end, which the
   cancel has applied, says when it is due. A due time that has passed is now.
2. Children that run after a failure wait again for a parent that comes back, see ``propagation.wait_again``. An update
   that comes back may have passed a parent between the steps of the cancel, and waits for it again, too.
3. Other effects of the operation are not taken back, only counted and named: children that failed because their parent
   was cancelled, the end of the project with its event and ``on_finished``, and ends of flows. A child that failed runs
   once all that it waits for have succeeded, and a flow runs on, as after a retry. Children in projects that the
   operation does not name are left out: a user who sees the undo may not reach them.
4. After the last task, the failures of parents count that blocked ones of the tasks that are back have missed, as in a
   push: their parents may have ended meanwhile, or stay cancelled. Until then these have a token by which the undo
   knows them.
5. No undo is undone. An undo that is cancelled gives the rows that are left back to its operation, after rule 4.
6. An undo waits until cleared tasks have been swept, as a retry does.
"""

from __future__ import annotations

from typing import Final, cast

from msgspec.structs import replace

from taskqueue.core.model.edges import UNSATISFIED, FoundEdges, TaskRef
from taskqueue.core.model.operation import BULK_ACTIONS, Operation, OperationTable
from taskqueue.core.model.project import Project
from taskqueue.core.model.records import OperationProgress, OperationRecord
from taskqueue.core.model.task import (
    BLOCKED,
    CANCELLED,
    FAILED,
    HELD_UNTIL,
    LIVE,
    NO_TOKEN,
    OVER,
    PROCESSING,
    READY,
    STATE_NAMES,
    Task,
    key_time,
)
from taskqueue.core.model.undo_rows import (
    DROPPED,
    HELD_BACK,
    KEEPS_TOKEN,
    MADE_DUE,
    PARENTS_LATER,
    PARENTS_NOW,
    TIMED_OUT,
    FoundUndo,
    UndoCursor,
    UndoPage,
    UndoRef,
    UndoRow,
    UndoRows,
)
from taskqueue.core.moves import edges, flows, undo_rows
from taskqueue.core.moves.push import apply_kept
from taskqueue.core.state import State
from taskqueue.core.steps import propagation
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Corrupt
from taskqueue.protocol.fields import Token
from taskqueue.protocol.values import BulkAction, TaskCounts, UndoProgress

STEP_ROWS = 256
"""Rows of one step, at most, and edges to children."""

NAMES_MOST: Final = 20
"""Children, projects and flows that an undo names, each."""


class UndoTally:
    """Counts and names that one step adds to the progress of the undo.

    Attributes:
        counts: tasks brought back, by the state that they came back to.
        named: taskids of the first of the ``children``.
        finished: times that projects have finished since, by name.
        flows: names of flows that had ended, by number.
    """

    __slots__ = ("changed", "children", "counts", "finished", "flows", "gone", "named", "ran")

    def __init__(self) -> None:
        self.counts = [0] * len(STATE_NAMES)
        self.ran = self.changed = self.gone = self.children = 0
        self.named: list[str] = []
        self.finished: dict[str, int] = {}
        self.flows: dict[int, str] = {}


def refusal(table: OperationTable, operation: Operation) -> str:
    """Say why an operation of the table can't be undone, after its name; empty if it can."""
    record, progress = operation.record, operation.record.progress
    if operation.is_undo:
        return "is an undo; do again what it took back"
    if progress.action not in BULK_ACTIONS:
        return f"is a {progress.action}; only {', '.join(BULK_ACTIONS)} can be undone"
    if progress.dry_run:
        return "was a dry run, which changes nothing"
    if operation.running:
        return "still runs; wait for its end, or cancel it first"
    if progress.undone_by:
        undo = table.find(progress.undone_by)
        return f"is {'being ' * (undo is not None and undo.running)}undone by operation {progress.undone_by}"
    if progress.no_undo:
        return f"can't be undone any more: {progress.no_undo}"
    if not progress.matched:
        return "has changed no task"
    return "" if record.rows is not None else "can't be undone: it began before changes were remembered"


def take_over(operation: Operation, undo: OperationRecord) -> None:
    """Give the rows of an operation to the undo that begins."""
    record, progress = operation.record, operation.record.progress
    if record.rows is None:
        raise Corrupt(f"operation {progress.id} has no rows to be undone")
    action = cast(BulkAction, progress.action)
    undo.undo = UndoCursor(
        progress.id,
        action,
        progress.priority or 0,
        progress.exetime or 0.0,
        progress.began_at,
        record.rows,
    )
    undo.progress.known = progress.rows
    undo.progress.undo = UndoProgress(progress.number, action)
    record.rows = None
    progress.rows, progress.undone_by = 0, undo.progress.number


def cancel(turn: TurnState, record: OperationRecord) -> bool:
    """Bring no further task back; return whether parents of those that are back must still be looked at."""
    cursor = cursor_of(record)
    if cursor.rows.parents == PARENTS_LATER:
        cursor.rest = replace(cursor.rows, parents=0)
        cursor.rows = UndoRows(cursor.rows.only_project, cursor.rows.pages, parents=PARENTS_NOW)
    elif not cursor.rows.parents:
        _give_back(turn, record)
    return cursor.rows.parents == PARENTS_NOW


def _give_back(turn: TurnState, record: OperationRecord) -> None:
    """Give the rows that a cancelled undo has not reached back to its operation; drop them if that is forgotten."""
    cursor, table = cursor_of(record), turn.state.operations
    progress = record.progress
    operation = table.by_id.get(cursor.operation)
    if operation is None:
        _drop(turn, record)
        return
    table.rows -= progress.seen
    operation.record.rows = cursor.rows
    operation.record.progress.rows = progress.known - progress.seen
    operation.record.progress.undone_by = 0
    turn.changes.writes.operations.append(operation.record)
    turn.state.wall_timers.note(("undo", operation.id), undo_rows.kept_until(operation))


def ref(state: State, record: OperationRecord) -> UndoRef:
    """Make the reference to what the next step reads."""
    cursor = cursor_of(record)
    rows = cursor.rows
    limit = min(STEP_ROWS, state.config.turn_tasks)
    children = cursor.action == "cancel" and rows.parents != PARENTS_NOW
    return UndoRef(cursor.operation, rows.position, rows.index, rows.after, _last(cursor), limit, children)


def take_step(turn: TurnState, record: OperationRecord, found: FoundUndo) -> None:
    """Bring back the tasks of the next rows, or end the undo after the last one."""
    if turn.due.undo != ref(turn.state, record):
        return  # cancelled in this turn
    cursor = cursor_of(record)
    rows, tally = cursor.rows, UndoTally()
    progress = record.progress
    left = min(STEP_ROWS, turn.state.config.turn_tasks)
    for page in found.pages:
        if page is not None:
            first, matched = rows.index, progress.matched
            is_through = _take_page(turn, record, page, found, left, tally)
            _log(turn, record, progress.matched - matched)
            left -= rows.index - first
            if not is_through:
                break
        rows.position += 1
        rows.index = 0
    if rows.position == _last(cursor) and rows.parents == PARENTS_LATER:
        rows.parents, rows.position = PARENTS_NOW, 0
    elif rows.position == _last(cursor):
        _end(turn, record, tally)
    progress.undo = _added(progress, tally)


def cursor_of(record: OperationRecord) -> UndoCursor:
    """Return the cursor of an undo."""
    if record.undo is None:
        raise Corrupt(f"operation {record.progress.id} is not an undo")
    return record.undo


def _last(cursor: UndoCursor) -> int:
    """Return the number of pages that the undo goes through; of one that was cancelled, of those with tasks back."""
    return cursor.rows.pages if cursor.rest is None else min(cursor.rest.position + 1, cursor.rest.pages)


def _end(turn: TurnState, record: OperationRecord, tally: UndoTally) -> None:
    cursor, progress = cursor_of(record), record.progress
    progress.ended_at = turn.now.wall
    if cursor.rest is not None:
        cursor.rows, cursor.rest = cursor.rest, None
        _give_back(turn, record)
        return
    tally.gone += progress.known - progress.seen  # of pages that can't be read
    progress.seen = progress.known
    _drop(turn, record)


def _drop(turn: TurnState, record: OperationRecord) -> None:
    turn.state.operations.rows -= record.progress.known
    undo_rows.drop_all_of(turn, cursor_of(record).operation)


def _take_page(
    turn: TurnState, record: OperationRecord, page: UndoPage, found: FoundUndo, most: int, tally: UndoTally
) -> bool:
    """Undo up to ``most`` rows of a page; return whether that were all."""
    cursor = cursor_of(record)
    project = turn.state.projects.by_number.get(page.project)
    if cursor.rows.parents == PARENTS_NOW:
        return _look_at_parents(turn, cursor, project, page, most)
    if project is not None and cursor.reached != page.project and project.finished > page.finished:
        tally.finished[project.name] = project.finished - page.finished
    cursor.reached = page.project
    rows, end = cursor.rows, min(len(page.rows), cursor.rows.index + most)
    while rows.index < end and _meet(turn, record, project, page, found, tally):
        rows.index += 1
    return rows.index == len(page.rows)


def _look_at_parents(turn: TurnState, cursor: UndoCursor, project: Project | None, page: UndoPage, most: int) -> bool:
    """Let failures count that up to ``most`` tasks of a page have missed; return whether that were all."""
    rows, end = cursor.rows, min(len(page.rows), cursor.rows.index + most)
    for row in page.rows[rows.index : end]:
        task = None if project is None else turn.find(project, row.taskid)
        if task is not None and task.state == BLOCKED and task.token == _blocked_token(page, row):
            turn.changes.propagate("edges", task.project, task.taskid)
    rows.index = end
    return end == len(page.rows)


def _log(turn: TurnState, record: OperationRecord, count: int) -> None:
    """Record for the log that tasks of the present project came back."""
    project = turn.state.projects.by_number.get(cursor_of(record).reached)
    if count and project is not None:
        record.tasks += count
        if project.name not in record.changed:
            record.changed.append(project.name)


def _meet(
    turn: TurnState,
    record: OperationRecord,
    project: Project | None,
    page: UndoPage,
    found: FoundUndo,
    tally: UndoTally,
) -> bool:
    """Undo one row, and see to the children of its task; False if that takes another step."""
    cursor = cursor_of(record)
    row = page.rows[cursor.rows.index]
    ref = TaskRef(page.project, row.taskid)
    task = None if project is None else turn.find(project, row.taskid)
    has_children = task is not None and task.links is not None and task.links.has_children
    children, parents = found.edges.get(ref), found.parents.get(ref)
    if has_children and children is None and cursor.action == "cancel":
        return False
    if not cursor.rows.after:
        if row.taskid in page.updates and (parents is None or not parents.end):
            return False  # not read yet, or there are many void edges, which will be deleted soon
        record.progress.seen += 1
        if project is None or not _undo(turn, cursor, project, page, row, parents, tally):
            tally.gone += project is None
            return True
        record.progress.matched += 1
    if children is not None:
        return _meet_children(turn, record, page.project, children, tally)
    cursor.rows.after = b""  # the task is gone
    return True


def _undo(
    turn: TurnState,
    cursor: UndoCursor,
    project: Project,
    page: UndoPage,
    row: UndoRow,
    parents: FoundEdges | None,
    tally: UndoTally,
) -> bool:
    """Bring one task back; return False, and count it, if it is gone or has changed.

    Args:
        parents: edges to the parents of its update, if it has one.
    """
    task = turn.find(project, row.taskid)
    if task is None or task.bare:
        tally.gone += 1
        return False
    if not _is_unchanged(cursor, task, page, row, turn.now.wall):
        tally.changed += 1
        return False
    _note_flow(turn, task, tally)
    turn.touch(project)
    if cursor.action == "reprioritise":
        project.queue.reprioritise(turn.changes, task, row.priority)
        task.token = row.token
        turn.state.want_held(project, task)
    else:
        for each in parents.edges if parents is not None else ():
            propagation.wait_again(turn, each, is_back=True)
        _bring_back(turn, project, task, row)
        if row.taskid in page.updates:
            apply_kept(turn, project, task, page.updates[row.taskid])
        if task.state == BLOCKED and cursor.action == "cancel":
            task.token = _blocked_token(page, row)
            cursor.rows.parents = PARENTS_LATER
        elif row.state == BLOCKED:
            edges.drop_unneeded(turn, task)
        tally.ran += row.state == PROCESSING
    tally.counts[task.state] += 1
    return True


def _blocked_token(page: UndoPage, row: UndoRow) -> Token:
    """Return the token of a task that comes back blocked: the one that it had, or else one by which it is known."""
    return Token(page.token if row.state == PROCESSING or row.token == NO_TOKEN else row.token)


def _is_unchanged(cursor: UndoCursor, task: Task, page: UndoPage, row: UndoRow, now: float) -> bool:
    if task.token != (row.token if row.flags & KEEPS_TOKEN else page.token):
        return False
    if cursor.action == "cancel":
        return task.state == CANCELLED
    if cursor.action == "reprioritise":
        return task.state in LIVE and task.priority == cursor.priority
    if task.priority != row.priority:
        return False
    if cursor.action == "retry":
        return task.state in (READY, BLOCKED) and not task.exetime
    has_come = cursor.exetime <= now or row.flags & MADE_DUE != 0  # the clock may have been put back since
    is_as_set = task.exetime == cursor.exetime or (has_come and not task.exetime)
    return task.state in LIVE and task.state != PROCESSING and is_as_set


def _bring_back(turn: TurnState, project: Project, task: Task, row: UndoRow) -> None:
    """Put a task back to where it was."""
    queue, changes = project.queue, turn.changes
    if row.state in OVER:
        queue.finish(changes, task, row.state, row.exetime)
        _restore(turn, task, row)
        return
    queue.withdraw(changes, task)
    _restore(turn, task, row)
    is_due = row.exetime <= turn.now.wall or row.exetime == HELD_UNTIL
    queue.put(changes, task, 0.0 if is_due else row.exetime)
    project.arm()
    turn.state.want_held(project, task)


def _restore(turn: TurnState, task: Task, row: UndoRow) -> None:
    task.retried = row.retried
    task.note_put_off(row.put_off)
    task.held_back = row.flags & HELD_BACK != 0
    task.timed_out = row.flags & TIMED_OUT != 0
    flows.note_dropped(turn, task, dropped=row.flags & DROPPED != 0)
    task.token = NO_TOKEN if row.state == PROCESSING else Token(row.token)


def _note_flow(turn: TurnState, task: Task, tally: UndoTally) -> None:
    """Note the flow of a task, if it has ended: with the task it runs on."""
    flow = None if task.links is None else turn.state.flows.by_number.get(task.links.flow)
    if flow is not None and flow.record.ended_at:
        tally.flows[flow.number] = flow.record.name


def _meet_children(
    turn: TurnState, record: OperationRecord, project: int, children: FoundEdges, tally: UndoTally
) -> bool:
    """Let children wait again for a task of the project, and count those that have failed; False if there are more."""
    cursor = cursor_of(record)
    for each in children.edges:
        propagation.wait_again(turn, each, cursor.began_at)
        mark, child = turn.changes.mark_of(each), turn.task_at(each.edge.child)
        links = None if child is None else child.links
        if mark is None or child is None or links is None or links.number != mark.number:
            continue
        name = turn.state.projects.by_number[child.project].name
        if child.project != project and name not in record.progress.projects:
            continue
        if child.state == FAILED and mark.state == UNSATISFIED and key_time(child.key) >= cursor.began_at:
            tally.children += 1
            if len(tally.named) < NAMES_MOST:
                tally.named.append(child.taskid if child.project == project else f"{name}/{child.taskid}")
    cursor.rows.after = b"" if children.end else children.edges[-1].key
    return children.end


def _added(progress: OperationProgress, tally: UndoTally) -> UndoProgress:
    """Return the progress with what a step adds; replies that have the former one stay as they were."""
    undo = progress.undo
    if undo is None:
        raise Corrupt(f"operation {progress.id} is not an undo")
    counts = {name: getattr(undo.counts, name) + tally.counts[state] for state, name in enumerate(STATE_NAMES) if name}
    return replace(
        undo,
        counts=TaskCounts(**counts),
        ran=undo.ran + tally.ran,
        changed=undo.changed + tally.changed,
        gone=undo.gone + tally.gone,
        children=undo.children + tally.children,
        children_named=[*undo.children_named, *tally.named][:NAMES_MOST],
        finished=undo.finished + sum(tally.finished.values()),
        finished_named=[*undo.finished_named, *tally.finished][:NAMES_MOST],
        flows=undo.flows + len(tally.flows),
        flows_named=[*undo.flows_named, *tally.flows.values()][:NAMES_MOST],
    )
