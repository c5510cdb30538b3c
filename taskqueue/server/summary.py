"""A line a minute of what happened, made from the records of the projects that changed.

    first change ──► window opens ──► SUMMARY_SECONDS later: one line ──► closed until the next change

So it costs a look at the projects that a turn touched, and an idle daemon is never woken up for it.
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

Row = tuple[int, ...]
"""Totals as a row, in the order of their fields."""


class Summary:
    """Gathers what one process did.

    Attributes:
        due_at: boot-clock seconds at which the next line is to be written; inf: nothing has happened since
            the last.
        names: of the projects that have been seen, by number.
    """

    def __init__(self, meters: Meters) -> None:
        self.due_at = inf
        self.names: dict[int, str] = {}
        self._meters = meters
        self._before: dict[int, Row] = {}
        self._after: dict[int, Row] = {}
        self._counted = (0, 0)

    def begin(self, projects: Iterable[ProjectRecord]) -> None:
        """Start from these records."""
        self.due_at = inf
        self.names = {project.number: project.name for project in projects}
        self._before = {project.number: _row(project) for project in projects}
        self._after = {}

    def note(self, projects: Iterable[ProjectRecord], boot: float) -> None:
        """Take note of the records that a turn changed."""
        for project in projects:
            self.names[project.number] = project.name
            self._after[project.number] = _row(project)
            if self.due_at == inf:
                self.due_at = boot + SUMMARY_SECONDS

    def forget(self, numbers: Iterable[int]) -> None:
        """These projects are no more; what they did since the last line is not told."""
        for number in numbers:
            for known in (self.names, self._before, self._after):
                known.pop(number, None)

    def line(self) -> str | None:
        """What happened since the last line; None if no task did anything. Closes the window."""
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
