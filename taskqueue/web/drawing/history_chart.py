"""Charts over time: a bar for each part of the time, its events, or milliseconds, one upon the other.

┌ most ─────────────┐
│      ▃   █        │     the height is a number of events, or a speed; the x axis is the caller's,
│  ▂ ▅ █ ▆ █ ▂      │     because times are shown in the zone of whoever looks
└───────────────────┘
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor, log10
from typing import Final, NamedTuple

WIDTH: Final = 720.0
HEIGHT: Final = 160.0
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


def draw(counts: Sequence[Mapping[str, float]], told: Sequence[str]) -> Chart:
    """Draw the parts of a time from left to right.

    Args:
        counts: of each part, by the names of events, the lowest first.
        told: of each part, in words.
    """
    most = ceiling(max((sum(each.values()) for each in counts), default=0.0))
    step = WIDTH / max(len(counts), 1)
    slots = []
    for place, (each, words) in enumerate(zip(counts, told, strict=True)):
        x, y, bars = place * step, HEIGHT, []
        for name, count in each.items():
            if count > 0:
                height = count / most * HEIGHT
                y -= height
                bars.append(Bar(name, round(x, 2), round(y, 2), round(step * (1 - GAP), 2), round(height, 2)))
        slots.append(Slot(round(x, 2), round(step, 2), words, bars))
    return Chart(slots, most, [(HEIGHT * (1 - part), most * part) for part in (0.5, 1.0)])


def ceiling(number: float) -> float:
    """The next of 1, 2, 5, 10, 20, 50, … (or 0.5, 0.2, …) that is not less; 1 for 0."""
    if number <= 0:
        return 1.0
    size = 10.0 ** floor(log10(number))
    return next((size * step for step in (1, 2, 5) if size * step >= number), size * 10 * ceil(number / size / 10))
