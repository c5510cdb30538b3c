"""Rows of an operation: what its tasks were before it changed them, kept for its undo.

    step of an operation ──page of rows──► store ──page by page──► step of the undo

A page has the rows of one step, in one value, which costs less than a value a task: with it a step takes 1.03 to 1.06
times as much CPU (``benchmarks.undo``). Values without behaviour; the rules are in ``moves/undo_rows`` and
``steps/undo``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec import Struct, field

from taskqueue.core.model.edges import FoundEdges, TaskRef
from taskqueue.protocol.fields import Token
from taskqueue.protocol.values import BulkAction, NewTask

OPERATIONS_MOST: Final = 10
"""Ended operations whose rows are kept."""
ROWS_MOST = 2_000_000
"""Rows that are kept, of all operations together."""
KEPT_SECONDS: Final = 7 * 86_400.0
"""Seconds from the end of an operation for which its rows are kept."""

HELD_BACK: Final = 1
TIMED_OUT: Final = 2
KEEPS_TOKEN: Final = 8
DROPPED: Final = 16
MADE_DUE: Final = 32
"""Bits of ``UndoRow.flags``."""


PARENTS_LATER, PARENTS_NOW = 1, 2


class UndoRow(Struct, array_like=True, gc=False):
    """Task as it was before an operation changed it.

    Attributes:
        state: its state.
        flags: HELD_BACK, TIMED_OUT and DROPPED as in the task; KEEPS_TOKEN if it has not got the page's token, because
            it may be running; MADE_DUE if a reschedule made it due at once.
        exetime: unix seconds before which it was not to run; of a finished task, at which it had ended.
        put_off: times in a row that its fetcher had put it off.
    """

    taskid: str
    state: int
    flags: int
    priority: int
    retried: int
    exetime: float
    token: Token
    put_off: int = 0


class UndoPage(Struct, array_like=True):
    """Rows of one step.

    Attributes:
        project: number of the project of all these tasks.
        finished: number of times that the project had been finished.
        token: token that the tasks have got, by which an undo knows them; that of no lease.
        updates: updates that were deferred until the ends of leases that a cancel has revoked, by taskid. They have
            been applied; an undo does so again, for their due times.
    """

    project: int
    finished: int
    token: Token
    rows: list[UndoRow] = field(default_factory=list)
    updates: dict[str, NewTask] = field(default_factory=dict)


class UndoRows(Struct, array_like=True):
    """Rows of an operation in the store, and how far an undo has gone through them.

    Attributes:
        only_project: number of the project of all rows; 0 if there are none, or they are of several.
        pages: number of pages.
        position: number of pages that the undo has finished.
        index: number of rows of the next page that it has finished.
        after: key of the last edge to a child of the next row that it has looked at; empty if none.
        parents: PARENTS_LATER if tasks came back blocked, whose parents may have failed meanwhile; PARENTS_NOW if it
            looks at these, page by page, after the last task.
    """

    only_project: int = 0
    pages: int = 0
    position: int = 0
    index: int = 0
    after: bytes = b""
    parents: int = 0


class UndoCursor(Struct, array_like=True):
    """Operation that an undo takes back, and its rows, which belong to the undo as long as it runs.

    Attributes:
        operation: id of the operation.
        action, priority, exetime, began_at: as in its progress; the operation may be forgotten meanwhile.
        reached: number of the project of the last page; 0 if none.
        rest: rows that a cancelled undo gives back once it has looked at the parents of what is back; None: not so.
    """

    operation: int
    action: BulkAction
    priority: int
    exetime: float
    began_at: float
    rows: UndoRows
    reached: int = 0
    rest: UndoRows | None = None


class UndoRef(NamedTuple):
    """Request for the next rows of an operation.

    Attributes:
        position, row, after, pages: see ``UndoRows``; ``row`` is its ``index``.
        limit: number of rows, and of edges to children, at most.
        children: True to include edges to the children of the tasks.
    """

    operation: int
    position: int
    row: int
    after: bytes
    pages: int
    limit: int
    children: bool


class UndoWrites(NamedTuple):
    """Page to be stored at a position among those of an operation."""

    operation: int
    position: int
    page: UndoPage


class FoundUndo(Struct):
    """Answer to an UndoRef; the tasks of the rows, and their children, are looked up like ``Needs.tasks``.

    Attributes:
        pages: pages in their order; None for one that can't be read.
        edges: next edges to children, by parent, as far as ``limit`` goes.
        parents: edges to the parents of tasks with updates, all edges of a task, by child, as far as ``limit`` goes.
    """

    pages: list[UndoPage | None] = field(default_factory=list)
    edges: dict[TaskRef, FoundEdges] = field(default_factory=dict)
    parents: dict[TaskRef, FoundEdges] = field(default_factory=dict)
