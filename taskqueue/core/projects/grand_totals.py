"""Sums of counts and totals over all projects, updated incrementally: reading them costs nothing.

Each project's contribution is remembered as it was last added, so that its gain is a subtraction.
"""

from __future__ import annotations

from operator import add, sub
from typing import Final

from taskqueue.core.parts.counts import EventTotals, TaskCounts
from taskqueue.core.parts.history import Row
from taskqueue.core.projects.project import Project

STATES: Final = len(TaskCounts.__struct_fields__)


class GrandTotals:
    """Sums over all projects."""

    __slots__ = ("_deleted", "_parts", "_row")

    def __init__(self) -> None:
        self._row = [0] * (STATES + len(EventTotals.__struct_fields__))
        self._parts: dict[int, tuple[int, ...]] = {}
        self._deleted = [0] * len(EventTotals.__struct_fields__)

    def note(self, project: Project, totals: Row) -> None:
        """Update the contribution of a project, with its totals."""
        part = (*project.queue.counts[1:], *totals)
        before = self._parts.get(project.number)
        if part != before:
            gained = part if before is None else map(sub, part, before)
            self._row = list(map(add, self._row, gained))
            self._parts[project.number] = part

    def remove(self, project: Project) -> None:
        """Remove a deleted project."""
        part = self._parts.pop(project.number, None)
        if part is not None:
            self._row = list(map(sub, self._row, part))
            self._deleted = list(map(add, self._deleted, part[STATES:]))

    def counts(self) -> TaskCounts:
        """Tasks by state."""
        return TaskCounts(*self._row[:STATES])

    def totals(self) -> EventTotals:
        """Events since the projects were created."""
        return EventTotals(*self._row[STATES:])

    def events(self) -> Row:
        """Like ``totals``, and those of projects deleted since the start: only differences of two mean something."""
        return tuple(map(add, self._row[STATES:], self._deleted))
