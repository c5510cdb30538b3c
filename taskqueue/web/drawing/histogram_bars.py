"""A histogram as bars, one for each class, all of the same width: the classes grow by factors."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from math import inf
from typing import Final, NamedTuple

from taskqueue.protocol.daemon import HistogramView

WIDTH: Final = 320.0
HEIGHT: Final = 80.0

CLASSES_LEAST: Final = 6
"""Classes that are drawn, however few have values."""


class Bar(NamedTuple):
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

    bars: list[Bar]
    first: str
    last: str
    bounds: list[float]

    def place(self, value: float) -> float:
        """Where a value stands, from left to right."""
        bounds, step = self.bounds, WIDTH / (len(self.bounds) - 1)
        at = bisect_left(bounds, value)
        if at == 0 or at == len(bounds):
            return 0.0 if at == 0 else WIDTH
        upper, lower = bounds[at], bounds[at - 1]
        inside = 1.0 if upper == inf else (value - lower) / (upper - lower)
        return round((at - 1 + inside) * step, 1)


def bars_of(histogram: HistogramView, words: Callable[[float], str]) -> Bars:
    """The bars; ``words`` tells a value."""
    edges = [0.0, *histogram.bounds, inf]
    counts = histogram.counts
    filled = [index for index, count in enumerate(counts) if count] or [0]
    first, last = _wide_enough(filled[0], filled[-1], len(counts))
    step, most = WIDTH / (last - first + 1), max(counts, default=0) or 1
    bars = []
    for place, index in enumerate(range(first, last + 1)):
        height = counts[index] / most * HEIGHT
        told = f"{_class(edges[index], edges[index + 1], words)}: {counts[index]:,}"
        bars.append(Bar(round(place * step, 1), round(HEIGHT - height, 1), round(step, 1), round(height, 1), told))
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
