"""Counters of projects in few time series, without prometheus-client: the busiest have their own, the others share one.

    scrape k     project gains 5 ──► its series: its own, or OTHERS
                 the busiest projects now have their own series until scrape k + 1

Rules:
1. A gain goes to the series that the project had after the previous scrape. So no counter falls, and each gain is seen
   once: a project that gets a series continues its former value, and one that loses it shows it once more.
2. A project's gain is the growth of its totals. If they have fallen, it was reset, or deleted and created anew: then
   its present totals are the gain. If they have fallen with a new epoch of the daemon, it lost changes that were not
   synced
   in a power cut: then there is no gain.
3. All counters start at 0: events before this process belong to the one before it.
4. Activity is measured by gains that lose half of their weight in HALF_LIFE_SECONDS. A project keeps its series until
   another one is busier by the factor ADVANTAGE, so that two of the same size don't alternate.
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
"""Series of all projects without one of their own; no project can have this name."""

HALF_LIFE_SECONDS: Final = 300.0
ADVANTAGE: Final = 2.0

REMEMBERED: Final = 20_000
"""Former series that are remembered, the latest ones, so that they continue at their last value."""


PausedBy = Literal["", "daemon", "operator"]


class ProjectRow(NamedTuple):
    """Row of a project.

    Attributes:
        counts: tasks by state, now, in the order of ``TaskCounts``.
        totals: events since it was created, in the order of ``EventTotals``.
        by: actor that paused it; the daemon does so when its tasks fail. Empty: it is not paused.
    """

    name: str
    state: ProjectState
    counts: Sequence[int]
    totals: Sequence[int]
    by: PausedBy = ""


class Activity:
    """Activity of projects, updated by each scrape.

    Args:
        most: projects that have series of their own, at most.
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
        """Count the gains of all projects.

        Args:
            rows: all projects.
            epoch: epoch of the daemon, at least 1.
            now: seconds, on any clock.
        """
        self._let_go()
        fading = 0.5 ** (max(0.0, now - self._taken_at) / HALF_LIFE_SECONDS)
        totals: dict[str, Sequence[int]] = {}
        weights: dict[str, float] = {}
        for row in rows:
            gained = self._gained(row, epoch)
            totals[row.name] = row.totals
            # At first the totals decide; later events weigh more than these.
            before = self._weights.get(row.name, 0.0) * fading if self._epoch else sum(row.totals) * 1e-9
            weights[row.name] = before + sum(gained)
            if any(gained):
                series = self._own.get(row.name, self._others)
                series[:] = map(add, series, gained)
        self._totals, self._weights = totals, weights
        self._taken_at, self._epoch = now, epoch
        self._choose()

    def counters(self) -> dict[str, Sequence[int]]:
        """Return events by series, in the order of the totals."""
        return {**self._own, OTHERS: self._others}

    def gauges(self, rows: Iterable[ProjectRow]) -> dict[str, Sequence[int]]:
        """Return tasks by series, in the order of the counts."""
        sums: dict[str, Sequence[int]] = {OTHERS: [0] * len(STATES)}
        for row in rows:
            name = row.name if row.name in self._own else OTHERS
            sums[name] = list(map(add, sums[name], row.counts)) if name in sums else row.counts
        return sums

    def most_telling(self, rows: Iterable[ProjectRow], most: int) -> list[str]:
        """Return the most interesting projects: those with a series of their own, then those with ready tasks."""
        ready, own = STATES.index("ready"), self._own
        told = sorted(rows, key=lambda row: (row.name not in own, not row.counts[ready]))
        return [row.name for row in told[:most]]

    def stands(self, found: Iterable[ProjectStand]) -> dict[str, tuple[float, int]]:
        """Return by series the longest idle time in seconds, and the number of slots that back off."""
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
        """Remove the series that have been shown once more."""
        for name in self._leaving:
            self._former[name] = self._own.pop(name)
        while len(self._former) > REMEMBERED:
            del self._former[next(iter(self._former))]
