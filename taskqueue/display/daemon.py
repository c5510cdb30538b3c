"""What is told of the daemon itself: a line for each thing, in groups."""

from __future__ import annotations

from math import isinf
from typing import Final, NamedTuple

from taskqueue.build_kind import build_kind
from taskqueue.display.counts import brief, projects
from taskqueue.display.fetchers import of_places
from taskqueue.protocol.daemon import DaemonReply, HistogramView
from taskqueue.quantiles import mean, quantile
from taskqueue.units import duration_text, size_text

NOTHING_YET: Final = "none yet"


class Fact(NamedTuple):
    """A line: what it is about, and what is said."""

    head: str
    told: str


def facts(reply: DaemonReply) -> list[Fact]:
    """All there is to be told, in order."""
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


def _version(reply: DaemonReply) -> str:
    return f"taskqueue {reply.version}, {build_kind(reply.compiled)}, Python {reply.python}"


def _fetchers(reply: DaemonReply) -> str:
    hung = f"; handlers whose lease is over hold {reply.hung:,} more" if reply.hung else ""
    return f"{reply.fetchers:,}, which hold {of_places(reply)}{hung}"


def _each_second(count: int, seconds: float) -> str:
    return f"{count / seconds:,.1f} a second" if seconds else "0 a second"


def _spread(histogram: HistogramView | None) -> str:
    """``half within 0.4 ms, 99 of 100 within 2.5 ms``."""
    if histogram is None or (half := quantile(histogram, 0.5)) is None:
        return NOTHING_YET
    most = quantile(histogram, 0.99)
    last = histogram.bounds[-1]
    return f"half within {brief_seconds(half, last)}, 99 of 100 within {brief_seconds(most or 0.0, last)}"


def brief_seconds(seconds: float, last: float) -> str:
    """Milliseconds in two or three digits, seconds as anywhere; what is above the last bound is more than that."""
    if isinf(seconds):
        return f"more than {duration_text(last)}"
    return f"{seconds * 1000:.2g} ms" if seconds < 0.0995 else duration_text(seconds)


def _tasks(histogram: HistogramView | None) -> str:
    if histogram is None or (average := mean(histogram)) is None:
        return NOTHING_YET
    most = quantile(histogram, 0.99) or 0.0
    large = f"more than {histogram.bounds[-1]:,.0f}" if isinf(most) else f"{most:,.0f} at most"
    return f"{average:,.1f} in the mean; 99 of 100 turns have {large}"


def _messages(shell: dict[str, float]) -> str:
    came, left = int(shell.get("frames_in", 0)), int(shell.get("frames_out", 0))
    refused = int(shell.get("malformed", 0)) + int(shell.get("unavailable", 0))
    said = f"{brief(came)} in, {brief(left)} out"
    return f"{said}; {brief(refused)} refused" if refused else said


def _of(count: int, most: int) -> str:
    return f"{size_text(count)} of {size_text(most)}" if most else size_text(count)


def _disk(reply: DaemonReply) -> list[Fact]:
    """What is free of the disk, near the top, where it is found at night; of a database nothing is known."""
    if reply.database:
        return []
    free = "not known" if reply.free_bytes is None else f"{size_text(reply.free_bytes)} free"
    return [Fact("disk", free if reply.has_room else f"{free}; too little: no tasks are taken or handed out")]


def _store(reply: DaemonReply) -> Fact:
    if reply.database:
        return Fact("store", reply.database)
    tables = sum(level.tables for level in reply.levels)
    size = f"{size_text(sum(level.bytes for level in reply.levels))} in {tables:,} tables"
    by_level = ", ".join(f"level {level.level}: {size_text(level.bytes)} in {level.tables:,}" for level in reply.levels)
    log = size_text(reply.log_bytes)
    return Fact("store", f"{size}, {log} in its log; {by_level}" if tables else f"{log} in its log, and no tables yet")
