"""Quantile and mean of a histogram."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import inf
from typing import Protocol


class Counted(Protocol):
    """Histogram with ascending bounds of classes, and a count for each class and for values above the last bound."""

    @property
    def bounds(self) -> Sequence[float]:
        """Upper bounds of classes, inclusive."""

    @property
    def counts(self) -> Sequence[int]:
        """Counts of values, one more than bounds."""

    @property
    def sum(self) -> float:
        """Sum of all values."""


def quantile(histogram: Counted, part: float) -> float | None:
    """Return a quantile (0.5: the median), as if values were even within each class; None if there are no values.

    A quantile above the last bound is inf.
    """
    up_to = list(accumulate(histogram.counts))
    if not up_to or not up_to[-1]:
        return None
    wanted = part * up_to[-1]
    place = next(index for index, count in enumerate(up_to) if count >= wanted and histogram.counts[index])
    if place == len(histogram.bounds):
        return inf
    lower = histogram.bounds[place - 1] if place else 0.0
    inside = (wanted - (up_to[place] - histogram.counts[place])) / histogram.counts[place]
    return lower + (histogram.bounds[place] - lower) * max(0.0, inside)


def mean(histogram: Counted) -> float | None:
    """Return the mean of all values; None if there are none."""
    count = sum(histogram.counts)
    return histogram.sum / count if count else None
