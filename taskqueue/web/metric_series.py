"""Counters of projects in few time series, made without prometheus-client: the busiest have their own, the rest one.

    scrape k     project gains 5 ──► the series that it has: its own, or OTHERS
                 whoever is busiest now has a series of its own until scrape k + 1

Rules:
1. A gain goes to the series that the project had after the scrape before. So no counter falls, and each gain is seen
   once: a project that gets a series of its own begins it with what that had when it last had it, and one that loses it
   shows it once more.
2. What a project gains is the growth of its totals. If they have fallen, it was reset, or deleted and made again: all
   that they are now is gain. If they have fallen while the daemon began another epoch, it lost what it had not synced
   in a power cut: then there is no gain.
3. All counters are 0 at first: what happened before this process was started belongs to the one before it.
4. Who is busy is told by gains that lose half of their weight in HALF_LIFE_SECONDS. Whoever has a series keeps it until
   another one is busier by the factor ADVANTAGE, so that two of the same size don't take turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import nlargest
from operator import add
from typing import Final, Literal, NamedTuple

from taskqueue.protocol.choices import ProjectState
from taskqueue.protocol.daemon import ProjectStand
from taskqueue.protocol.values import EventTotals, TaskCounts

EVENTS: Final = EventTotals.__struct_fields__
STATES: Final = TaskCounts.__struct_fields__

OTHERS: Final = "(other)"
"""The series of all projects without one of their own; no project can be named so."""

HALF_LIFE_SECONDS: Final = 300.0
ADVANTAGE: Final = 2.0

REMEMBERED: Final = 20_000
"""Former series of projects that have none now: so many of the last ones go on where they were."""


PausedBy = Literal["", "daemon", "operator"]


class ProjectRow(NamedTuple):
    """A project as the daemon has it.

    Attributes:
        counts: tasks by state, now, in the order of ``TaskCounts``.
        totals: events since it was made, in the order of ``EventTotals``.
        by: whom it is paused by; the daemon does it when its tasks fail. Empty: it is not paused.
    """

    name: str
    state: ProjectState
    counts: Sequence[int]
    totals: Sequence[int]
    by: PausedBy = ""


class Activity:
    """Takes the rows of all projects, scrape by scrape.

    Args:
        most: projects that have series of their own.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._nothing = [0] * len(EVENTS)
        self._totals: dict[str, Sequence[int]] = {}
        self._weights: dict[str, float] = {}
        self._own: dict[str, list[int]] = {}
        self._leaving: list[str] = []
        self._former: dict[str, list[int]] = {}
        self._others = list(self._nothing)
        self._taken_at = 0.0
        self._epoch = 0

    def take(self, rows: Sequence[ProjectRow], epoch: int, now: float) -> None:
        """Count what projects have gained.

        Args:
            rows: all that there are.
            epoch: of the daemon, at least 1.
            now: seconds, on any clock.
        """
        self._let_go()
        fading = 0.5 ** (max(0.0, now - self._taken_at) / HALF_LIFE_SECONDS)
        totals: dict[str, Sequence[int]] = {}
        weights: dict[str, float] = {}
        for row in rows:
            gained = self._gained(row, epoch)
            totals[row.name] = row.totals
            # At first, who had most so far; what happens from now on weighs more than that.
            before = self._weights.get(row.name, 0.0) * fading if self._epoch else sum(row.totals) * 1e-9
            weights[row.name] = before + sum(gained)
            if any(gained):
                series = self._own.get(row.name, self._others)
                series[:] = map(add, series, gained)
        self._totals, self._weights = totals, weights
        self._taken_at, self._epoch = now, epoch
        self._choose()

    def counters(self) -> dict[str, Sequence[int]]:
        """Events by series, in the order of the totals."""
        return {**self._own, OTHERS: self._others}

    def gauges(self, rows: Iterable[ProjectRow]) -> dict[str, Sequence[int]]:
        """Tasks by series, in the order of the counts."""
        sums: dict[str, Sequence[int]] = {OTHERS: [0] * len(STATES)}
        for row in rows:
            name = row.name if row.name in self._own else OTHERS
            sums[name] = list(map(add, sums[name], row.counts)) if name in sums else row.counts
        return sums

    def most_telling(self, rows: Iterable[ProjectRow], most: int) -> list[str]:
        """Names of projects whose stand says most: those with a series of their own, then those with ready tasks."""
        ready, own = STATES.index("ready"), self._own
        told = sorted(rows, key=lambda row: (row.name not in own, not row.counts[ready]))
        return [row.name for row in told[:most]]

    def stands(self, found: Iterable[ProjectStand]) -> dict[str, tuple[float, int]]:
        """Seconds idle, the most of the series, and slots that back off, by series."""
        told = {OTHERS: (0.0, 0)}
        for each in found:
            name = each.name if each.name in self._own else OTHERS
            idle, backoffs = told.get(name, (0.0, 0))
            told[name] = max(idle, each.idle_seconds), backoffs + each.backoffs
        return told

    def _gained(self, row: ProjectRow, epoch: int) -> Sequence[int]:
        if not self._epoch:
            return self._nothing
        before = self._totals.get(row.name, self._nothing)
        gained = [now - then for now, then in zip(row.totals, before, strict=True)]
        if min(gained) >= 0:
            return gained
        return row.totals if epoch == self._epoch else [max(0, each) for each in gained]

    def _choose(self) -> None:
        weights, own = self._weights, self._own
        ranked = nlargest(self._most, weights, key=lambda name: weights[name] * (ADVANTAGE if name in own else 1.0))
        chosen = set(ranked)
        self._leaving = [name for name in own if name not in chosen]
        for name in ranked:
            if name not in own:
                own[name] = self._former.pop(name, list(self._nothing))

    def _let_go(self) -> None:
        """Take away the series that have been shown once more."""
        for name in self._leaving:
            self._former[name] = self._own.pop(name)
        while len(self._former) > REMEMBERED:
            del self._former[next(iter(self._former))]
