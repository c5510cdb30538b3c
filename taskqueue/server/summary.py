"""A log line per minute of activity, made from the records of changed projects.

    first change ──► window opens ──► SUMMARY_SECONDS later: one line ──► closed until the next change

It costs a look at the projects that a turn changed, and never wakes an idle daemon.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from math import inf
from typing import Final

import msgspec

from taskqueue.core.parts.counts import EventTotals
from taskqueue.core.tasks.records import ProjectRecord
from taskqueue.server.meters import Meters

SUMMARY_SECONDS: Final = 60.0
BUSIEST: Final = 5
"""Projects to name in a line."""

Row = tuple[int, ...]
"""Totals of a project, in the order of the fields of ``Totals``."""


class Summary:
    """Accumulates the activity of all projects.

    Attributes:
        due_at: boot-clock seconds of the next line; inf: nothing has happened since the last.
        names: of the projects seen so far, by number.
    """

    def __init__(self, meters: Meters) -> None:
        self.due_at = inf
        self.names: dict[int, str] = {}
        self._meters = meters
        self._before: dict[int, Row] = {}
        self._after: dict[int, Row] = {}
        self._counted = (0, 0)

    def begin(self, projects: Iterable[ProjectRecord]) -> None:
        """Reset to these records."""
        self.due_at = inf
        self.names = {project.number: project.name for project in projects}
        self._before = {project.number: _row(project) for project in projects}
        self._after = {}

    def note(self, projects: Iterable[ProjectRecord], boot: float) -> None:
        """Record projects that a turn changed."""
        for project in projects:
            self.names[project.number] = project.name
            self._after[project.number] = _row(project)
            if self.due_at == inf:
                self.due_at = boot + SUMMARY_SECONDS

    def forget(self, numbers: Iterable[int]) -> None:
        """Drop deleted projects; their activity since the last line is not reported."""
        for number in numbers:
            for known in (self.names, self._before, self._after):
                known.pop(number, None)

    def line(self) -> str | None:
        """The activity since the last line; None if there was none. Closes the window."""
        grown = {self.names[number]: self._grown(number) for number in self._after}
        self._before.update(self._after)
        self._after = {}
        self.due_at = inf
        turns, requests = self._since_last()
        if not any(map(any, grown.values())):
            return None
        sums = _pairs(tuple(map(sum, zip(*grown.values(), strict=True))))
        return f"summary turns={turns} requests={requests} {sums} busiest={_busiest(grown)}"

    def _grown(self, number: int) -> Row:
        before = self._before.get(number, _NONE)
        return tuple(new - old for new, old in zip(self._after[number], before, strict=True))

    def _since_last(self) -> tuple[int, int]:
        turns, requests = self._counted
        self._counted = (self._meters.turns, self._meters.frames_in)
        return self._counted[0] - turns, self._counted[1] - requests


def _row(project: ProjectRecord) -> Row:
    return msgspec.structs.astuple(project.totals)


_NONE: Final[Row] = msgspec.structs.astuple(EventTotals())


def _pairs(row: Row) -> str:
    return " ".join(f"{name}={count}" for name, count in zip(EventTotals.__struct_fields__, row, strict=True))


def _busiest(grown: dict[str, Row]) -> str:
    busy = heapq.nlargest(BUSIEST, ((sum(row), name) for name, row in grown.items()))
    return ",".join(f"{name}:{events}" for events, name in busy)
