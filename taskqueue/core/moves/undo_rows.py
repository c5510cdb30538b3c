"""Rows of operations for their undo: kept with each step, and dropped when there are too many or they are too old.

    step ──page──► rows ──► undo        ──► dropped with the last row
                        └─► 7 days, OPERATIONS_MOST later operations, ROWS_MOST rows, the end of its project ──► dropped

Rules:
1. A page is written in the commit of the step, and all rows of an operation are dropped as one range, in one commit:
   the store deletes them bit by bit.
2. The tasks of a step get a token of their own, which is that of no lease and which no client can guess: a task that
   still has it has not been dispatched, ended, replaced or retried since. A task that may be running keeps its token.
3. An operation of which rows are missing is never undone: a part would be worse than nothing.
"""

from __future__ import annotations

from math import inf
from typing import Final

from taskqueue.core.model.hashes import derive
from taskqueue.core.model.operation import Operation
from taskqueue.core.model.project import Project
from taskqueue.core.model.task import OVER, Task, key_time
from taskqueue.core.model.undo_rows import (
    DROPPED,
    HELD_BACK,
    KEEPS_TOKEN,
    KEPT_SECONDS,
    OPERATIONS_MOST,
    ROWS_MOST,
    TIMED_OUT,
    UndoPage,
    UndoRow,
    UndoWrites,
)
from taskqueue.core.state import EPOCH_SHIFT
from taskqueue.core.turn_state import TurnState
from taskqueue.protocol.fields import Token

_SESSION: Final = ""
"""Id in place of a session's, from which the mask of these tokens is derived; no session has it."""
_BELOW_EPOCH: Final = (1 << EPOCH_SHIFT) - 1
"""Bits that the mask changes: a repair takes the rest for an epoch."""

TOO_MANY: Final = f"it changed more tasks than the {ROWS_MOST:,} that are remembered of all operations"
TOO_LATE: Final = f"only the last {OPERATIONS_MOST} operations that changed tasks can be undone"
TOO_OLD: Final = f"it ended more than {KEPT_SECONDS / 86_400:.0f} days ago"
NO_ROOM: Final = f"later operations took its place among the {ROWS_MOST:,} tasks that are remembered"
NO_PROJECT: Final = "its project was reset or deleted"


def begin_page(turn: TurnState, project: Project) -> UndoPage:
    """Begin the page of a step on tasks of the project."""
    state = turn.state
    token = Token(state.next_number() ^ derive(state.secret, _SESSION).mask & _BELOW_EPOCH)
    return UndoPage(project.number, project.finished, token)


def row_of(task: Task, *, keeps_token: bool) -> UndoRow:
    """Make the row of a task that is about to be changed."""
    flags = task.held_back * HELD_BACK | task.timed_out * TIMED_OUT | keeps_token * KEEPS_TOKEN
    if task.links is not None:
        flags |= task.links.dropped * DROPPED
    exetime = key_time(task.key) if task.state in OVER else task.exetime
    return UndoRow(task.taskid, task.state, flags, task.priority, task.retried, exetime, task.token, task.put_off)


def keep_update(task: Task, page: UndoPage) -> None:
    """Keep the deferred update of a task that is about to be cancelled, if it has one: it says when the task is due."""
    if task.lease is not None and task.lease.deferred is not None:
        page.updates[task.taskid] = task.lease.deferred


def keep(turn: TurnState, operation: Operation, page: UndoPage) -> None:
    """Write the page of a step; drop what is too much then, the oldest operation first."""
    record = operation.record
    rows = record.rows
    if rows is None or not page.rows:
        return
    turn.changes.writes.undo_pages.append(UndoWrites(operation.id, rows.pages, page))
    rows.only_project = page.project if rows.only_project == page.project or not rows.pages else 0
    rows.pages += 1
    record.progress.rows += len(page.rows)
    table = turn.state.operations
    table.rows += len(page.rows)
    for ended in [each for each in table.with_rows() if not each.running] if table.rows > ROWS_MOST else ():
        if table.rows > ROWS_MOST:
            drop(turn, ended, NO_ROOM)
    if table.rows > ROWS_MOST:
        drop(turn, operation, TOO_MANY)


def limit(turn: TurnState, operation: Operation) -> None:
    """Note the end of an operation; of those with rows the last OPERATIONS_MOST keep them."""
    record, state = operation.record, turn.state
    if record.rows is None:
        return
    if not record.rows.pages:
        record.rows = None
        return
    state.wall_timers.note(("undo", operation.id), kept_until(operation))
    ended = [each for each in state.operations.with_rows() if not each.running]
    for each in ended[:-OPERATIONS_MOST]:
        drop(turn, each, TOO_LATE)


def drop(turn: TurnState, operation: Operation, reason: str) -> None:
    """Drop the rows of an operation, which can't be undone then."""
    record, writes = operation.record, turn.changes.writes
    turn.state.operations.rows -= record.progress.rows
    record.rows = None
    record.progress.rows, record.progress.no_undo = 0, reason
    writes.operations.append(record)
    drop_all_of(turn, operation.id)


def drop_all_of(turn: TurnState, operation: int) -> None:
    """Delete all rows of the operation with this id."""
    writes = turn.changes.writes
    writes.undo_pages = [each for each in writes.undo_pages if each.operation != operation]
    writes.dropped_rows.append(operation)


def forget_project(turn: TurnState, number: int) -> None:
    """Drop the rows of operations that changed tasks of this project only, which is gone."""
    for operation in turn.state.operations.with_rows():
        if operation.record.rows is not None and operation.record.rows.only_project == number:
            drop(turn, operation, NO_PROJECT)


def kept_until(operation: Operation) -> float:
    """Return until when the rows of an operation are kept, in unix seconds; inf if it runs, or has none."""
    record = operation.record
    return inf if record.rows is None or operation.running else record.progress.ended_at + KEPT_SECONDS
