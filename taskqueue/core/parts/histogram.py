"""A histogram: how often something was how large. To count a value takes 0.2 µs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

SECONDS: Final[tuple[float, ...]] = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
"""Bounds for what a computer does."""

LATENESS_SECONDS: Final[tuple[float, ...]] = (
    0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0, 86400.0,
)  # fmt: skip
"""Bounds for what waits for its turn: from at once to a daemon that was away for a day."""

TASKS: Final[tuple[float, ...]] = tuple(float(1 << power) for power in range(13))
"""Bounds for tasks of a turn: 1 to 4096."""


class Histogram:
    """Counts values by classes.

    Attributes:
        bounds: ascending; a value that equals one belongs to its class.
        counts: of each class, and of what is above the last bound.
        sum: of all values.
    """

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def note(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value
