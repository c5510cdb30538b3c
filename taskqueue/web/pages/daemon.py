"""Page of the daemon: figures of the last minutes, since its start, and over the last day."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from math import isinf
from typing import Any, Final, NamedTuple

from starlette.requests import Request

from taskqueue.display import daemon
from taskqueue.display.daemon import brief_seconds, facts
from taskqueue.protocol.daemon import DaemonPoint, DaemonShow, Histogram
from taskqueue.quantiles import quantile
from taskqueue.web.drawing import charts
from taskqueue.web.drawing.charts import (
    HISTOGRAM_HEIGHT,
    HISTOGRAM_WIDTH,
    Bars,
    Chart,
    Share,
    bars_of,
    draw_chart,
    shares,
    spark_points,
)
from taskqueue.web.live.daemon import SPACING_SECONDS, DaemonSamples
from taskqueue.web.pages.live_page import LivePage, routes_of
from taskqueue.web.routes import WebRoute
from taskqueue.web.services import Services, services_of

QUARTER_SECONDS: Final = 900
QUARTERS: Final = 96
"""Quarters drawn: a day."""

DAY_SECONDS: Final = 15.0
"""Time for which the history of a day is cached."""


class Trend(NamedTuple):
    """Number and its course in the last minutes; ``most`` is the largest value."""

    name: str
    now: str
    line: str
    most: str


class Drawn(NamedTuple):
    """Histogram.

    Attributes:
        marks: rows of (x, text) of median and 99th percentile.
    """

    name: str
    meaning: str
    values: int
    bars: Bars
    marks: Sequence[tuple[float, str]]


MEANINGS: Final[Mapping[str, tuple[str, str]]] = {
    "turn_seconds": ("turns", "from receiving requests to answering them"),
    "commit_seconds": ("commits", "to write a turn's changes"),
    "sync_seconds": ("syncs", "until writes are on the disk"),
    "turn_tasks": ("tasks a turn", "dispatched, pushed and ended"),
    "attempt_seconds": ("attempts", "from dispatch to the end"),
    "lateness_seconds": ("lateness", "of due tasks, and of cron entries"),
}


async def look(request: Request) -> Mapping[str, Any]:
    """Fetch the daemon's state and history."""
    services = services_of(request)
    reply = await services.client._ask(DaemonShow())
    samples = services.samples
    samples.take(time.monotonic(), reply)
    size = sum(level.bytes for level in reply.levels) + reply.log_bytes
    day, begin = await _day(services), _day_begins(time.time())
    return {
        "reply": reply, "facts": facts(reply), "trends": _trends(samples), "seconds": samples.seconds,
        "drawn": [each for name in MEANINGS if (each := _drawn(name, reply.histograms.get(name))) is not None],
        "width": HISTOGRAM_WIDTH, "height": HISTOGRAM_HEIGHT, "size": size,
        "day": daemon.history_parts(day), "columns": daemon.HISTORY_COLUMNS, "explained": daemon.HISTORY_EXPLAINED,
        "chart": _day_drawn(day, begin), "chart_width": charts.CHART_WIDTH, "chart_height": charts.CHART_HEIGHT,
        "times": [begin + QUARTER_SECONDS * QUARTERS * part / 4 for part in range(5)],
        "slowest": [(point.at, daemon.minute_sentence(point)) for point in daemon.slowest_minutes(day)],
        "read_again": list(daemon.read_again(day)),
        "memory": shares([("processing", reply.resident_bytes)], reply.resident_bytes_most),
        "task_memory": shares([("processing", reply.task_bytes)], reply.task_bytes_most),
        "log_share": _share(reply.log_bytes, size),
        "levels": [(level, _share(level.bytes, size)) for level in reply.levels],
    }  # fmt: skip


def _share(part: float, whole: float) -> Sequence[Share]:
    return shares([("processing", part)], whole)


def _trends(samples: DaemonSamples) -> list[Trend]:
    paces = samples.paces()
    commits = samples.histogram("commit_seconds")
    return [
        _trend("turns a second", [pace.turns for pace in paces], _number),
        _trend("tasks a turn", [pace.tasks for pace in paces], _number),
        _trend("commit p50", [pace.commit_half for pace in paces], _seconds, _quantile(commits, 0.5)),
        _trend("commit p99", [pace.commit_most for pace in paces], _seconds, _quantile(commits, 0.99)),
    ]


def _trend(name: str, numbers: Sequence[float], words: Callable[[float], str], now: float | None = None) -> Trend:
    """Make a trend; ``now`` replaces the mean of the last few numbers."""
    if not numbers:
        return Trend(name, "", "", "")
    known = [0.0 if isinf(number) else number for number in numbers]
    last = known[-5:]
    return Trend(name, words(sum(last) / len(last) if now is None else now), spark_points(known), words(max(known)))


def _quantile(histogram: Histogram | None, part: float) -> float | None:
    return quantile(histogram, part) if histogram is not None else None


def _drawn(name: str, histogram: Histogram | None) -> Drawn | None:
    if histogram is None or not any(histogram.counts):
        return None
    words = _whole if name == "turn_tasks" else _seconds
    bars = bars_of(histogram, words)
    half, most = quantile(histogram, 0.5) or 0.0, quantile(histogram, 0.99) or 0.0
    marks = [(bars.place(half), f"p50 {words(half)}"), (bars.place(most), f"p99 {words(most)}")]
    return Drawn(*MEANINGS[name], sum(histogram.counts), bars, marks)


def _number(number: float) -> str:
    return f"{number:,.1f}"


def _whole(number: float) -> str:
    return "many" if isinf(number) else f"{number:,.0f}"


def _seconds(seconds: float) -> str:
    return "0" if not seconds else brief_seconds(seconds, seconds)


# --------------------------------------------------------------------------------------------------------- the last day


async def _day(services: Services) -> Sequence[DaemonPoint]:
    async def ask() -> list[DaemonPoint]:
        return [point async for point in services.client.daemon.history()]

    return await services.recent.ask("daemon-history", DAY_SECONDS, ask)


def _day_begins(now: float) -> float:
    """Return the unix seconds at which the first drawn quarter of an hour begins; the last one is running."""
    return (now // QUARTER_SECONDS + 1 - QUARTERS) * QUARTER_SECONDS


def _day_drawn(points: Sequence[DaemonPoint], begin: float) -> Chart:
    """Draw the 99th percentiles of turns and syncs in the slowest minute of each quarter of an hour, in ms."""
    found: list[dict[str, float]] = [{} for _ in range(QUARTERS)]
    for point in points:
        place = int((point.at - begin) // QUARTER_SECONDS)
        if place >= 0:
            each = found[min(place, QUARTERS - 1)]
            each["turn"] = max(each.get("turn", 0.0), point.turn_p99_seconds * 1000)
            each["sync"] = max(each.get("sync", 0.0), point.sync_p99_seconds * 1000)
    told = [
        f"{_utc(begin + place * QUARTER_SECONDS)}: "
        + (f"turns {each['turn']:,.1f} ms, syncs {each['sync']:,.1f} ms" if each else "no turn")
        for place, each in enumerate(found)
    ]
    return draw_chart(found, told)


def _utc(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M UTC")


BLOCKS: Final = ("figures", "trends", "day", "histograms", "facts", "store")

ROUTES: Final[tuple[WebRoute, ...]] = routes_of(
    LivePage("/daemon", "daemon.html", look, BLOCKS, every=SPACING_SECONDS),
)
