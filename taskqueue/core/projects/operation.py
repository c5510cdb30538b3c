"""A running or finished operation; ``operations`` has the rules."""

from __future__ import annotations

from typing import Final, get_args

from taskqueue.core.parts.now import Now
from taskqueue.core.projects.waiters import Waiters
from taskqueue.core.tasks.records import OperationRecord
from taskqueue.protocol.values import BulkAction

BULK_ACTIONS: Final = get_args(BulkAction)


class Operation:
    """An operation, with the requests that wait for its end.

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
        """The number that people know it by."""
        return self.record.progress.id

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return not self.record.progress.ended_at

    @property
    def is_bulk(self) -> bool:
        """Whether it changes tasks of its projects, not the projects themselves."""
        return self.record.progress.action in BULK_ACTIONS

    @property
    def is_rerun(self) -> bool:
        """Whether it runs tasks again, with those that depend on them."""
        return self.record.cursor is not None

    @property
    def project(self) -> int:
        """Number of the project that it is processing."""
        return self.members[self.record.position]

    def go_on(self, now: Now) -> None:
        """Move on to the next project, or end."""
        record = self.record
        record.position += 1
        record.after = ""
        if record.position == len(self.members):
            record.progress.ended_at = now.wall
