"""Operations that are under way, by their turns, and those that have ended and are remembered."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from typing import Final

from taskqueue.core.projects.operation import Operation

ENDED_KEPT: Final = 100


class OperationTable:
    """Operations.

    Attributes:
        by_id: the oldest first; for reading.
        running: by id, in the order of their turns; for reading.
    """

    __slots__ = ("_ended", "by_id", "running")

    def __init__(self) -> None:
        self.by_id: dict[int, Operation] = {}
        self.running: OrderedDict[int, Operation] = OrderedDict()
        self._ended: deque[int] = deque()

    def load(self, operations: Iterable[Operation]) -> None:
        """Take in those that the store has."""
        for operation in operations:
            self.by_id[operation.id] = operation
            if operation.running:
                self.running[operation.id] = operation
        ended: Sequence[Operation] = [each for each in self.by_id.values() if not each.running]
        self._ended.extend(each.id for each in sorted(ended, key=lambda each: each.record.progress.ended_at))

    def add(self, operation: Operation) -> int | None:
        """Know an operation that has begun; return the one that is forgotten for it, if it has ended at once."""
        self.by_id[operation.id] = operation
        if not operation.running:
            return self._remember(operation)
        self.running[operation.id] = operation
        return None

    def pass_on(self, operation: Operation) -> None:
        """It has had its turn; the next one has its."""
        self.running.move_to_end(operation.id)

    def end(self, operation: Operation) -> int | None:
        """It is over; return the one whose end is the longest ago, if it has to be forgotten for this one."""
        del self.running[operation.id]
        return self._remember(operation)

    def _remember(self, operation: Operation) -> int | None:
        self._ended.append(operation.id)
        if len(self._ended) <= ENDED_KEPT:
            return None
        oldest = self._ended.popleft()
        del self.by_id[oldest]
        return oldest
