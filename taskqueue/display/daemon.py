"""Words for the daemon: its present state, a line per fact, and its history.

present state     ──► facts, in groups
points of minutes ──► parts of 1, 2, 5, … minutes ──► rows: sums, and the slowest minute of each part
       └────────────► slowest minutes ──► sentences
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from math import isinf
from typing import Final, NamedTuple

from taskqueue.display.columns import ListColumn, time_column
from taskqueue.display.counts import brief, projects
from taskqueue.display.fetchers import of_places
from taskqueue.protocol.daemon import DaemonPoint, DaemonStatus, Histogram
from taskqueue.quantiles import mean, quantile
from taskqueue.texts.units import duration_text, size_text
from taskqueue.this_process import build_kind

NOTHING_YET: Final = "none yet"


class Fact(NamedTuple):
    """Line about the daemon: topic and text."""

    head: str
    text: str


def facts(reply: DaemonStatus) -> list[Fact]:
    """List all facts, in order."""
    shell, histograms = reply.shell, reply.histograms
    up = reply.uptime_seconds
    sessions = "1 session" if reply.sessions == 1 else f"{reply.sessions:,} sessions"
    turns = int(shell.get("turns", 0))
    return [
        Fact("running for", f"{duration_text(up)}, as process {reply.pid}, epoch {reply.epoch}"),
        *_disk(reply),
        Fact("version", _version(reply)),
        Fact("turns", f"{brief(turns)}, {_each_second(turns, up)}; {_spread(histograms.get('turn_seconds'))}"),
        Fact("tasks a turn", _tasks(histograms.get("turn_tasks"))),
        Fact("commit", f"{_spread(histograms.get('commit_seconds'))}; answers leave by durability {reply.durability}"),
        Fact("sync", _spread(histograms.get("sync_seconds"))),
        Fact("attempts", _spread(histograms.get("attempt_seconds"))),
        Fact("lateness", _spread(histograms.get("lateness_seconds"))),
        Fact("messages", _messages(shell)),
        Fact("fetchers", _fetchers(reply)),
        Fact("knows", f"{projects(reply.projects)}, {sessions}"),
        Fact("memory", _of(reply.resident_bytes, reply.resident_bytes_most)),
        Fact("tasks in memory", _of(reply.task_bytes, reply.task_bytes_most)),
        _store(reply),
    ]


def _version(reply: DaemonStatus) -> str:
    return f"taskqueue {reply.version}, {build_kind(reply.compiled)}, Python {reply.python}"


def _fetchers(reply: DaemonStatus) -> str:
    hung = f"; handlers whose lease has ended occupy {reply.hung:,} more" if reply.hung else ""
    slow = f", {reply.slow:,} slow" if reply.slow else ""
    return f"{reply.fetchers:,}, which hold {of_places(reply)}{slow}{hung}"


def _each_second(count: int, seconds: float) -> str:
    return f"{count / seconds:,.1f} a second" if seconds else "0 a second"


def _spread(histogram: Histogram | None) -> str:
    """Describe a distribution: ``half within 0.4 ms, 99 of 100 within 2.5 ms``."""
    if histogram is None or (half := quantile(histogram, 0.5)) is None:
        return NOTHING_YET
    most = quantile(histogram, 0.99)
    last = histogram.bounds[-1]
    return f"half within {brief_seconds(half, last)}, 99 of 100 within {brief_seconds(most or 0.0, last)}"


def brief_seconds(seconds: float, last: float) -> str:
    """Format seconds, short times as milliseconds in two or three digits; inf is "more than" the bound ``last``."""
    if isinf(seconds):
        return f"more than {duration_text(last)}"
    return f"{seconds * 1000:.2g} ms" if seconds < 0.0995 else duration_text(seconds)


def _tasks(histogram: Histogram | None) -> str:
    if histogram is None or (average := mean(histogram)) is None:
        return NOTHING_YET
    most = quantile(histogram, 0.99) or 0.0
    large = f"more than {histogram.bounds[-1]:,.0f}" if isinf(most) else f"{most:,.0f} at most"
    return f"{average:,.1f} in the mean; 99 of 100 turns have {large}"


def _messages(shell: dict[str, float]) -> str:
    came, left = int(shell.get("frames_in", 0)), int(shell.get("frames_out", 0))
    refused = sum(int(shell.get(why, 0)) for why in ("malformed", "unavailable", "forbidden"))
    said = f"{brief(came)} in, {brief(left)} out"
    return f"{said}; {brief(refused)} refused" if refused else said


def _of(count: int, most: int) -> str:
    return f"{size_text(count)} of {size_text(most)}" if most else size_text(count)


def _disk(reply: DaemonStatus) -> list[Fact]:
    """Describe the free space near the top, where operators look first; nothing is known of a database."""
    if reply.database:
        return []
    free = "not known" if reply.free_bytes is None else f"{size_text(reply.free_bytes)} free"
    return [Fact("disk", free if reply.has_room else f"{free}; too little: no tasks are taken or dispatched")]


def _store(reply: DaemonStatus) -> Fact:
    if reply.database:
        return Fact("store", reply.database)
    tables = sum(level.tables for level in reply.levels)
    size = f"{size_text(sum(level.bytes for level in reply.levels))} in {tables:,} tables"
    by_level = ", ".join(f"level {level.level}: {size_text(level.bytes)} in {level.tables:,}" for level in reply.levels)
    log = f"{size_text(reply.log_bytes)} in its write-ahead log"
    return Fact("store", f"{size}, {log}; {by_level}" if tables else f"{log}, and no tables yet")


PARTS_MOST: Final = 24
PART_SECONDS: Final = (60, 120, 300, 600, 900, 1800, 3600)
SLOWEST_SHOWN: Final = 5
MOST_SECONDS: Final = 10.0
"""Last bound of the daemon's histograms; longer times are not measured."""

NO_MINUTES: Final = "No minute is complete yet; ask again in a minute."


class HistoryPart(NamedTuple):
    """Part of the daemon's history.

    Attributes:
        at: beginning, in unix seconds.
        points: points of its minutes, by time; at least one.
    """

    at: float
    points: Sequence[DaemonPoint]

    def largest(self, name: str) -> float:
        """Return the largest value of a field."""
        return max(float(getattr(point, name)) for point in self.points)

    def each_second(self, name: str) -> float:
        """Return a count per second, over the minutes that have a point."""
        count: int = sum(getattr(point, name) for point in self.points)
        return count / (60 * len(self.points))


def _times(name: str) -> Callable[[HistoryPart], str]:
    """Format median and 99th percentile in milliseconds: ``0.4/12``."""
    fields = f"{name}_p50_seconds", f"{name}_p99_seconds"
    return lambda part: "/".join(_milliseconds(part.largest(field)) for field in fields)


def _milliseconds(seconds: float) -> str:
    ms = seconds * 1000
    return f"{ms:,.0f}" if ms >= 9.95 else f"{ms:.1g}" if ms < 0.1 else f"{ms:.1f}"


def _pace(name: str) -> Callable[[HistoryPart], str]:
    return lambda part: f"{part.each_second(name):,.1f}"


HISTORY_COLUMNS: Final[tuple[ListColumn[HistoryPart], ...]] = (
    time_column("from", lambda part: part.at),
    ListColumn("turns/s", _pace("turns")),
    ListColumn("turn ms", _times("turn")),
    ListColumn("commit ms", _times("commit")),
    ListColumn("sync ms", _times("sync")),
    ListColumn("out/s", _pace("selected")),
    ListColumn("ready", lambda part: brief(part.points[-1].ready)),
    ListColumn("memory", lambda part: size_text(part.largest("resident_bytes"))),
)
HISTORY_EXPLAINED: Final = (
    "turn, commit, sync: within how many ms half/99 of 100 were done in the slowest minute; out/s: tasks dispatched"
)


def history_parts(points: Sequence[DaemonPoint]) -> list[HistoryPart]:
    """Divide a history into parts of equal length, PARTS_MOST or one more; parts without points are left out."""
    seconds = points[-1].at - points[0].at if points else 0.0
    each = next((each for each in PART_SECONDS if seconds <= each * PARTS_MOST), PART_SECONDS[-1])
    return [HistoryPart(at * each, list(found)) for at, found in groupby(points, key=lambda point: point.at // each)]


def slowest_minutes(points: Iterable[DaemonPoint]) -> list[DaemonPoint]:
    """Return the minutes with the slowest turns and syncs, which answers may have waited for; the slowest first."""
    return sorted(points, key=lambda point: -(point.turn_most_seconds + point.sync_most_seconds))[:SLOWEST_SHOWN]


def minute_sentence(point: DaemonPoint) -> str:
    """Describe a minute of the daemon: ``99 of 100 turns in 12 ms (all in 25 ms), commits …``."""
    timed = (
        ("turns", point.turn_p99_seconds, point.turn_most_seconds),
        ("commits", point.commit_p99_seconds, point.commit_most_seconds),
        ("syncs", point.sync_p99_seconds, point.sync_most_seconds),
    )
    spreads = ", ".join(f"{what} {_within(p99)} (all {_within(most)})" for what, p99, most in timed if most)
    return (
        f"99 of 100 {spreads}; {brief(point.turns)} turns, {brief(point.new)} new, {brief(point.selected)} dispatched, "
        f"{brief(point.ended)} ended; then {brief(point.ready)} ready, {size_text(point.resident_bytes)}"
    )


def _within(seconds: float) -> str:
    return "in over 10 s" if seconds > MOST_SECONDS else f"in {brief_seconds(seconds, MOST_SECONDS)}"


def read_again(points: Sequence[DaemonPoint]) -> Iterator[DaemonPoint]:
    """Yield the minutes in which the daemon loaded its store again: at a start, or after a failure of the store."""
    return (point for before, point in pairwise(points) if point.epoch != before.epoch)
