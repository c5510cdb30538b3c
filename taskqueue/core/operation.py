"""A bulk operation under way, or ended and remembered. ``operations`` has the rules."""

from __future__ import annotations

from taskqueue.core.kept import OperationRecord
from taskqueue.core.waiting import Waiters


class Operation:
    """One of them, with those who wait for its end."""

    __slots__ = ("record", "waiters")

    def __init__(self, record: OperationRecord) -> None:
        self.record = record
        self.waiters = Waiters()

    @property
    def running(self) -> bool:
        """It has not ended."""
        return not self.record.view.ended_at
