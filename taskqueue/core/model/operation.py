"""Operations, running or finished, and the table of all; ``steps/operations`` has the rules.

The table has running operations, in round-robin order, and ended ones that are remembered.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from typing import Final, get_args

from taskqueue.core.model.now import Now
from taskqueue.core.model.records import OperationRecord
from taskqueue.core.model.waiters import Waiters
from taskqueue.protocol.values import BulkAction

BULK_ACTIONS: Final = get_args(BulkAction)

NAMES_SHOWN: Final = 20
"""Projects of an operation that are named, at most."""


class Operation:
    """Operation, with the requests that wait for its end.

    Attributes:
        members: numbers of the projects that it goes through; unused once it has ended.
    """

    __slots__ = ("members", "record", "waiters")

    def __init__(self, record: OperationRecord, members: list[int]) -> None:
        self.record = record
        self.members = members
        self.waiters = Waiters()

    @property
    def id(self) -> int:
        """Number under which the operation is stored; see ``OperationProgress.number``, too."""
        return self.record.progress.id

    @property
    def running(self) -> bool:
        """True until the operation has ended."""
        return not self.record.progress.ended_at

    @property
    def is_bulk(self) -> bool:
        """True if the operation changes tasks of its projects, not the projects themselves."""
        return self.record.progress.action in BULK_ACTIONS

    @property
    def is_rerun(self) -> bool:
        """True if the operation runs tasks again, with the tasks that depend on them."""
        return self.record.cursor is not None

    @property
    def is_undo(self) -> bool:
        """True if the operation takes back what another one did."""
        return self.record.undo is not None

    @property
    def project(self) -> int:
        """Number of the project that the operation has reached."""
        return self.members[self.record.position]

    def go_on(self, now: Now) -> None:
        """Move on to the next project, or end."""
        record = self.record
        record.position += 1
        record.after = ""
        if record.position == len(self.members):
            record.progress.ended_at = now.wall


ENDED_KEPT: Final = 100
"""Ended operations that are remembered; beyond it the first one that can't be undone is forgotten."""


class OperationTable:
    """Table of all operations.

    Attributes:
        by_id: operations by id, the oldest first; read-only for others.
        running: running operations by id, in round-robin order; read-only for others.
        next_number: number of the next operation; after a start, the one after the largest that is remembered.
        rows: number of rows that are kept for undos, of all operations.
    """

    __slots__ = ("_ended", "by_id", "next_number", "rows", "running")

    def __init__(self) -> None:
        self.by_id: dict[int, Operation] = {}
        self.running: OrderedDict[int, Operation] = OrderedDict()
        self.next_number = 1
        self.rows = 0
        self._ended: deque[int] = deque()

    def find(self, number: int) -> Operation | None:
        """Find the operation of this id or number; None if it never was, or was forgotten."""
        if number in self.by_id:
            return self.by_id[number]
        found = (each for each in self.by_id.values() if each.record.progress.number == number)
        return next(found, None) if number else None

    def with_rows(self) -> list[Operation]:
        """Return the operations whose rows are kept for an undo that has not begun, the oldest first."""
        return [each for each in self.by_id.values() if each.record.rows is not None]

    def load(self, operations: Iterable[Operation]) -> None:
        """Add the operations that the store has."""
        for operation in operations:
            self.by_id[operation.id] = operation
            progress = operation.record.progress
            self.rows += progress.known if operation.is_undo and operation.running else progress.rows
            self.next_number = max(self.next_number, operation.record.progress.number + 1)
            if operation.running:
                self.running[operation.id] = operation
        ended: Sequence[Operation] = [each for each in self.by_id.values() if not each.running]
        self._ended.extend(each.id for each in sorted(ended, key=lambda each: each.record.progress.ended_at))

    def add(self, operation: Operation) -> int | None:
        """Add a new operation; return the id of an operation forgotten for one that has ended at once, or None."""
        self.by_id[operation.id] = operation
        self.next_number = max(self.next_number, operation.record.progress.number + 1)
        if not operation.running:
            return self._remember(operation)
        self.running[operation.id] = operation
        return None

    def pass_on(self, operation: Operation) -> None:
        """Move an operation, after its step, behind the others."""
        self.running.move_to_end(operation.id)

    def end(self, operation: Operation) -> int | None:
        """Record the end of an operation; return the id of the operation that is forgotten for it, or None."""
        del self.running[operation.id]
        return self._remember(operation)

    def _remember(self, operation: Operation) -> int | None:
        self._ended.append(operation.id)
        if len(self._ended) <= ENDED_KEPT:
            return None
        oldest = next(number for number in self._ended if self.by_id[number].record.rows is None)
        self._ended.remove(oldest)
        del self.by_id[oldest]
        return oldest
