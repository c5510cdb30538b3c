"""Charts: bars over time, histograms, shares, and sparklines.

┌ most ─────────────┐
│      ▃   █        │     over time: a stack of bars for each part of the time, with its events or milliseconds;
│  ▂ ▅ █ ▆ █ ▂      │     the height is a count or a rate; the page draws the x axis, in the zone of its reader
└───────────────────┘

histogram    a bar per class, all of the same width: the classes grow by factors
shares       a bar whose parts are as wide as their counts
sparkline    a number over time, without axes (E. Tufte, "Beautiful Evidence", 2006)
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil, floor, inf, log10
from typing import Final, NamedTuple

from taskqueue.protocol.daemon import Histogram

# ------------------------------------------------------------------------------------------------------------ over time

CHART_WIDTH: Final = 720.0
CHART_HEIGHT: Final = 160.0
GAP: Final = 0.18
"""Part of a bar's room that stays empty."""


class Bar(NamedTuple):
    """Rectangle; ``name`` is the name of its events."""

    name: str
    x: float
    y: float
    width: float
    height: float


class Slot(NamedTuple):
    """Part of the time with its bars; ``title`` describes them in words."""

    x: float
    width: float
    title: str
    bars: list[Bar]


class Chart(NamedTuple):
    """Drawing of CHART_WIDTH by CHART_HEIGHT.

    Attributes:
        most: value at the upper edge.
        lines: horizontal lines, as rows of (y, value).
    """

    slots: list[Slot]
    most: float
    lines: list[tuple[float, float]]


def draw_chart(counts: Sequence[Mapping[str, float]], titles: Sequence[str]) -> Chart:
    """Draw the parts of a time from left to right.

    Args:
        counts: counts of each part by name of the events, the lowest bar first.
        titles: description of each part.
    """
    most = ceiling(max((sum(each.values()) for each in counts), default=0.0))
    step = CHART_WIDTH / max(len(counts), 1)
    slots = []
    for place, (each, title) in enumerate(zip(counts, titles, strict=True)):
        x, y, bars = place * step, CHART_HEIGHT, []
        for name, count in each.items():
            if count > 0:
                height = count / most * CHART_HEIGHT
                y -= height
                bars.append(Bar(name, round(x, 2), round(y, 2), round(step * (1 - GAP), 2), round(height, 2)))
        slots.append(Slot(round(x, 2), round(step, 2), title, bars))
    return Chart(slots, most, [(CHART_HEIGHT * (1 - part), most * part) for part in (0.5, 1.0)])


def ceiling(number: float) -> float:
    """Round up to the next of 1, 2, 5, 10, 20, 50, … (or 0.5, 0.2, …); 1 for 0."""
    if number <= 0:
        return 1.0
    size = 10.0 ** floor(log10(number))
    return next((size * step for step in (1, 2, 5) if size * step >= number), size * 10 * ceil(number / size / 10))


# ----------------------------------------------------------------------------------------------------------- histograms

HISTOGRAM_WIDTH: Final = 320.0
HISTOGRAM_HEIGHT: Final = 80.0

CLASSES_LEAST: Final = 6
"""Classes that are drawn at least, even if they are empty."""


class ClassBar(NamedTuple):
    """Bar of a class, and its description."""

    x: float
    y: float
    width: float
    height: float
    title: str


class Bars(NamedTuple):
    """Histogram as it is drawn, without empty classes at both ends.

    Attributes:
        first, last: bounds at both ends, in words.
        bounds: bounds of the drawn classes.
    """

    bars: list[ClassBar]
    first: str
    last: str
    bounds: list[float]

    def place(self, value: float) -> float:
        """Return the x position of a value."""
        bounds, step = self.bounds, HISTOGRAM_WIDTH / (len(self.bounds) - 1)
        at = bisect_left(bounds, value)
        if at == 0 or at == len(bounds):
            return 0.0 if at == 0 else HISTOGRAM_WIDTH
        upper, lower = bounds[at], bounds[at - 1]
        inside = 1.0 if upper == inf else (value - lower) / (upper - lower)
        return round((at - 1 + inside) * step, 1)


def bars_of(histogram: Histogram, words: Callable[[float], str]) -> Bars:
    """Draw a histogram; ``words`` formats a value."""
    edges = [0.0, *histogram.bounds, inf]
    counts = histogram.counts
    filled = [index for index, count in enumerate(counts) if count] or [0]
    first, last = _wide_enough(filled[0], filled[-1], len(counts))
    step, most = HISTOGRAM_WIDTH / (last - first + 1), max(counts, default=0) or 1
    bars = []
    for place, index in enumerate(range(first, last + 1)):
        height = counts[index] / most * HISTOGRAM_HEIGHT
        title = f"{_class(edges[index], edges[index + 1], words)}: {counts[index]:,}"
        bars.append(
            ClassBar(
                round(place * step, 1), round(HISTOGRAM_HEIGHT - height, 1), round(step, 1), round(height, 1), title
            )
        )
    ends = edges[first : last + 2]
    return Bars(bars, words(ends[0]), "more" if ends[-1] == inf else words(ends[-1]), ends)


def _wide_enough(first: int, last: int, classes: int) -> tuple[int, int]:
    missing = CLASSES_LEAST - (last - first + 1)
    if missing > 0:
        first = max(0, first - missing // 2)
        last = min(classes - 1, first + CLASSES_LEAST - 1)
    return first, last


def _class(lower: float, upper: float, words: Callable[[float], str]) -> str:
    return f"more than {words(lower)}" if upper == inf else f"{words(lower)} to {words(upper)}"


# --------------------------------------------------------------------------------------------------------------- shares


class Share(NamedTuple):
    """Part of a bar."""

    name: str
    x: float
    width: float


def shares(parts: Iterable[tuple[str, float]], whole: float, width: float = 100.0) -> list[Share]:
    """Divide a bar of this width, which stands for the whole, into parts; parts of 0 are left out."""
    found, x = list[Share](), 0.0
    for name, count in parts:
        if count > 0 and whole > 0:
            found.append(Share(name, round(x, 2), round(count / whole * width, 2)))
            x += count / whole * width
    return found


# ----------------------------------------------------------------------------------------------------------- sparklines

SPARK_WIDTH: Final = 96
SPARK_HEIGHT: Final = 22
SPARK_EDGE: Final = 2
"""Room above the highest point and below the lowest one."""


def spark_points(numbers: Sequence[float]) -> str:
    """Return the points of a polyline, from left to right, with the highest number at the top and 0 at the bottom."""
    if len(numbers) < 2:
        return ""
    most = max(numbers) or 1.0
    step = SPARK_WIDTH / (len(numbers) - 1)
    room = SPARK_HEIGHT - 2 * SPARK_EDGE
    return " ".join(
        f"{place * step:.1f},{SPARK_HEIGHT - SPARK_EDGE - number / most * room:.1f}"
        for place, number in enumerate(numbers)
    )
