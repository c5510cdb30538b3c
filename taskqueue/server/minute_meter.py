"""What the meters of the daemon have counted in each minute, for the history of the daemon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from taskqueue.core.parts.daemon_minutes import DaemonMinute
from taskqueue.core.parts.histogram import SECONDS, Histogram
from taskqueue.quantiles import quantile
from taskqueue.resident_memory import resident_bytes
from taskqueue.server.meters import Meters

MICROSECONDS: Final = 1e6

OVER_SECONDS: Final = 11.0
"""What took longer than the last bound of the histograms, which is 10 s, may have taken any time."""


class _Counts(NamedTuple):
    """What the meters said at a moment."""

    turns: int
    commits: int
    syncs: int
    turn: Sequence[int]
    commit: Sequence[int]
    sync: Sequence[int]


class MinuteMeter:
    """Compares the meters with what they were at the beginning of the minute. A minute without a turn is passed over.

    To look whether a minute is over takes 0.1 µs; at the end of one its figures take 0.1 ms.
    """

    def __init__(self, meters: Meters) -> None:
        self._meters = meters
        self._minute = 0
        self._before = _counts(meters)

    def ended(self, wall: float) -> DaemonMinute | None:
        """The figures of the minute before, if it has ended since this was last asked and had a turn."""
        minute = int(wall // 60)
        if minute == self._minute:
            return None
        figures = self.figures()
        self._minute, self._before = minute, _counts(self._meters)
        return figures

    def figures(self) -> DaemonMinute | None:
        """The figures of the running minute; None: it had no turn."""
        now, before = _counts(self._meters), self._before
        if now.turns == before.turns:
            return None
        return DaemonMinute(
            self._minute,
            turns=now.turns - before.turns,
            commits=now.commits - before.commits,
            syncs=now.syncs - before.syncs,
            resident_bytes=resident_bytes(),
            **_spread("turn", now.turn, before.turn),
            **_spread("commit", now.commit, before.commit),
            **_spread("sync", now.sync, before.sync),
        )


def _counts(meters: Meters) -> _Counts:
    classes = (each.counts.copy() for each in (meters.turn, meters.commit, meters.sync))
    return _Counts(meters.turns, meters.writes, meters.syncs, *classes)


def _spread(name: str, now: Sequence[int], before: Sequence[int]) -> dict[str, int]:
    """Microseconds within which half, 99 of 100 and all were done."""
    came = Histogram(SECONDS)
    came.counts = [later - earlier for later, earlier in zip(now, before, strict=True)]
    parts = {"p50": 0.5, "p99": 0.99, "most": 1.0}
    found = {key: min(quantile(came, part) or 0.0, OVER_SECONDS) for key, part in parts.items()}
    return {f"{name}_{key}": round(seconds * MICROSECONDS) for key, seconds in found.items()}
