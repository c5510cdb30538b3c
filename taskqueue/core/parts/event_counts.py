"""Events of a project, as they are counted. What is stored of them, and shown, is made of a row."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from taskqueue.core.parts.counts import EventTotals
from taskqueue.core.parts.history import Row


@mypyc_attr(acyclic=True)
class EventCounts:
    """How many events of each kind a project has had, as in EventTotals.

    Not a struct, because they grow several times in each task's life, and compiled code changes the fields of structs
    slowly.
    """

    __slots__ = ("failed", "new", "retried", "selected", "success", "timeout")

    def __init__(self, totals: EventTotals) -> None:
        self.new = totals.new
        self.selected = totals.selected
        self.success = totals.success
        self.failed = totals.failed
        self.retried = totals.retried
        self.timeout = totals.timeout

    def row(self) -> Row:
        """The counts, in the order of the fields of EventTotals."""
        return self.new, self.selected, self.success, self.failed, self.retried, self.timeout
