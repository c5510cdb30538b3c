"""How the daemon was over time: a row for each part of the time, and a sentence for each of its slowest minutes.

points of minutes ──► parts of 1, 2, 5, … minutes ──► rows: sums, and the slowest minute of each part
       └────────────► those that a caller waited longest in ──► sentences
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from taskqueue.display.counts import brief
from taskqueue.display.daemon import brief_seconds
from taskqueue.protocol.daemon import DaemonPoint
from taskqueue.units import size_text

PARTS_MOST: Final = 24
PART_SECONDS: Final = (60, 120, 300, 600, 900, 1800, 3600)
SLOWEST_SHOWN: Final = 5
MOST_SECONDS: Final = 10.0
"""Of what took longer nobody knows how long: the last bound of the daemon's histograms."""

NO_MINUTES: Final = "No minute is complete yet; ask again in a minute."


class Part(NamedTuple):
    """A part of the time.

    Attributes:
        at: unix seconds of its beginning.
        points: of its minutes, by time; at least one.
    """

    at: float
    points: Sequence[DaemonPoint]

    def largest(self, name: str) -> float:
        """The largest value of a field."""
        return max(float(getattr(point, name)) for point in self.points)

    def each_second(self, name: str) -> float:
        """A count per second of the minutes that have a point."""
        count: int = sum(getattr(point, name) for point in self.points)
        return count / (60 * len(self.points))


class HistoryColumn(NamedTuple):
    """A thing that is told of a part of the time."""

    head: str
    told: Callable[[Part], str]


def _times(name: str) -> Callable[[Part], str]:
    """``0.4/12``: milliseconds."""
    fields = f"{name}_p50_seconds", f"{name}_p99_seconds"
    return lambda part: "/".join(_milliseconds(part.largest(field)) for field in fields)


def _milliseconds(seconds: float) -> str:
    ms = seconds * 1000
    return f"{ms:,.0f}" if ms >= 9.95 else f"{ms:.1g}" if ms < 0.1 else f"{ms:.1f}"


def _pace(name: str) -> Callable[[Part], str]:
    return lambda part: f"{part.each_second(name):,.1f}"


COLUMNS: Final = (
    HistoryColumn("turns/s", _pace("turns")),
    HistoryColumn("turn ms", _times("turn")),
    HistoryColumn("commit ms", _times("commit")),
    HistoryColumn("sync ms", _times("sync")),
    HistoryColumn("out/s", _pace("selected")),
    HistoryColumn("ready", lambda part: brief(part.points[-1].ready)),
    HistoryColumn("memory", lambda part: size_text(part.largest("resident_bytes"))),
)
EXPLAINED: Final = (
    "turn, commit, sync: within how many ms half/99 of 100 were done in the slowest minute; out/s: tasks handed out"
)


def parts(points: Sequence[DaemonPoint]) -> list[Part]:
    """The parts of a time that have points, PARTS_MOST or one more; all of one length, the shortest possible."""
    seconds = points[-1].at - points[0].at if points else 0.0
    each = next((each for each in PART_SECONDS if seconds <= each * PARTS_MOST), PART_SECONDS[-1])
    return [Part(at * each, list(found)) for at, found in groupby(points, key=lambda point: point.at // each)]


def slowest(points: Iterable[DaemonPoint]) -> list[DaemonPoint]:
    """The minutes in which the slowest turn and sync took longest, that one first: so long answers may have waited."""
    return sorted(points, key=lambda point: -(point.turn_most_seconds + point.sync_most_seconds))[:SLOWEST_SHOWN]


def sentence(point: DaemonPoint) -> str:
    """What the daemon did in a minute: ``99 of 100 turns in 12 ms (all in 25 ms), commits …``."""
    timed = (
        ("turns", point.turn_p99_seconds, point.turn_most_seconds),
        ("commits", point.commit_p99_seconds, point.commit_most_seconds),
        ("syncs", point.sync_p99_seconds, point.sync_most_seconds),
    )
    spreads = ", ".join(f"{what} {_within(p99)} (all {_within(most)})" for what, p99, most in timed if most)
    return (
        f"99 of 100 {spreads}; {brief(point.turns)} turns, {brief(point.new)} new, {brief(point.selected)} handed out, "
        f"{brief(point.ended)} ended; then {brief(point.ready)} ready, {size_text(point.resident_bytes)}"
    )


def _within(seconds: float) -> str:
    return "in over 10 s" if seconds > MOST_SECONDS else f"in {brief_seconds(seconds, MOST_SECONDS)}"


def read_again(points: Sequence[DaemonPoint]) -> Iterator[DaemonPoint]:
    """The minutes in which the daemon has read its store again: it was started, or its store had failed."""
    return (point for before, point in pairwise(points) if point.epoch != before.epoch)
