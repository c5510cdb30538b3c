"""Charts: bars over time, histograms, parts of a whole, and lines as small as a word.

┌ most ─────────────┐
│      ▃   █        │     over time: a bar for each part of the time, its events, or milliseconds, one upon
│  ▂ ▅ █ ▆ █ ▂      │     the other; the height is a number of events, or a speed; the x axis is the caller's,
└───────────────────┘     because times are shown in the zone of whoever looks

histogram    a bar for each class, all of the same width: the classes grow by factors
shares       a bar whose parts are as wide as what they stand for
sparkline    how a number went, without axes (E. Tufte, "Beautiful Evidence", 2006)
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
"""Of a bar's room that stays empty beside it."""


class Bar(NamedTuple):
    """A rectangle; ``name``: of the events that it stands for."""

    name: str
    x: float
    y: float
    width: float
    height: float


class Slot(NamedTuple):
    """A part of the time with its bars; ``told``: what they say, in words."""

    x: float
    width: float
    told: str
    bars: list[Bar]


class Chart(NamedTuple):
    """A drawing of WIDTH by HEIGHT.

    Attributes:
        most: what the upper edge stands for.
        lines: heights of lines across, each with what it stands for.
    """

    slots: list[Slot]
    most: float
    lines: list[tuple[float, float]]


def draw_chart(counts: Sequence[Mapping[str, float]], told: Sequence[str]) -> Chart:
    """Draw the parts of a time from left to right.

    Args:
        counts: of each part, by the names of events, the lowest first.
        told: of each part, in words.
    """
    most = ceiling(max((sum(each.values()) for each in counts), default=0.0))
    step = CHART_WIDTH / max(len(counts), 1)
    slots = []
    for place, (each, words) in enumerate(zip(counts, told, strict=True)):
        x, y, bars = place * step, CHART_HEIGHT, []
        for name, count in each.items():
            if count > 0:
                height = count / most * CHART_HEIGHT
                y -= height
                bars.append(Bar(name, round(x, 2), round(y, 2), round(step * (1 - GAP), 2), round(height, 2)))
        slots.append(Slot(round(x, 2), round(step, 2), words, bars))
    return Chart(slots, most, [(CHART_HEIGHT * (1 - part), most * part) for part in (0.5, 1.0)])


def ceiling(number: float) -> float:
    """The next of 1, 2, 5, 10, 20, 50, … (or 0.5, 0.2, …) that is not less; 1 for 0."""
    if number <= 0:
        return 1.0
    size = 10.0 ** floor(log10(number))
    return next((size * step for step in (1, 2, 5) if size * step >= number), size * 10 * ceil(number / size / 10))


# ----------------------------------------------------------------------------------------------------------- histograms

HISTOGRAM_WIDTH: Final = 320.0
HISTOGRAM_HEIGHT: Final = 80.0

CLASSES_LEAST: Final = 6
"""Classes that are drawn, however few have values."""


class ClassBar(NamedTuple):
    """A class, and in words what it has."""

    x: float
    y: float
    width: float
    height: float
    told: str


class Bars(NamedTuple):
    """A histogram as it is drawn; classes at both ends that have nothing are left out.

    Attributes:
        first, last: the bounds at both ends, in words.
        bounds: of the classes that are drawn.
    """

    bars: list[ClassBar]
    first: str
    last: str
    bounds: list[float]

    def place(self, value: float) -> float:
        """Where a value stands, from left to right."""
        bounds, step = self.bounds, HISTOGRAM_WIDTH / (len(self.bounds) - 1)
        at = bisect_left(bounds, value)
        if at == 0 or at == len(bounds):
            return 0.0 if at == 0 else HISTOGRAM_WIDTH
        upper, lower = bounds[at], bounds[at - 1]
        inside = 1.0 if upper == inf else (value - lower) / (upper - lower)
        return round((at - 1 + inside) * step, 1)


def bars_of(histogram: Histogram, words: Callable[[float], str]) -> Bars:
    """The bars; ``words`` tells a value."""
    edges = [0.0, *histogram.bounds, inf]
    counts = histogram.counts
    filled = [index for index, count in enumerate(counts) if count] or [0]
    first, last = _wide_enough(filled[0], filled[-1], len(counts))
    step, most = HISTOGRAM_WIDTH / (last - first + 1), max(counts, default=0) or 1
    bars = []
    for place, index in enumerate(range(first, last + 1)):
        height = counts[index] / most * HISTOGRAM_HEIGHT
        told = f"{_class(edges[index], edges[index + 1], words)}: {counts[index]:,}"
        bars.append(
            ClassBar(
                round(place * step, 1), round(HISTOGRAM_HEIGHT - height, 1), round(step, 1), round(height, 1), told
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
    """A part of a bar."""

    name: str
    x: float
    width: float


def shares(parts: Iterable[tuple[str, float]], whole: float, width: float = 100.0) -> list[Share]:
    """The parts side by side, of a bar of so much width that stands for the whole; what is 0 has none."""
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
"""Above the highest point and below the lowest one."""


def spark_points(numbers: Sequence[float]) -> str:
    """The points of a polyline, from left to right, the highest number at the top and 0 at the bottom."""
    if len(numbers) < 2:
        return ""
    most = max(numbers) or 1.0
    step = SPARK_WIDTH / (len(numbers) - 1)
    room = SPARK_HEIGHT - 2 * SPARK_EDGE
    return " ".join(
        f"{place * step:.1f},{SPARK_HEIGHT - SPARK_EDGE - number / most * room:.1f}"
        for place, number in enumerate(numbers)
    )
