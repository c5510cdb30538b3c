"""What a histogram tells in a few numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import inf
from typing import Protocol


class Counted(Protocol):
    """A histogram: ascending bounds of classes, and the counts of these and of what is above the last bound."""

    @property
    def bounds(self) -> Sequence[float]:
        """What is as large as a bound belongs to its class."""

    @property
    def counts(self) -> Sequence[int]:
        """One more than bounds."""

    @property
    def sum(self) -> float:
        """Of all values."""


def quantile(histogram: Counted, part: float) -> float | None:
    """What this part of the values (0.5: half of them) is at most, as if each class were evenly filled; None: no value.

    Of what is larger than the last bound nobody knows how large it is: inf.
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
    """None: no values."""
    count = sum(histogram.counts)
    return histogram.sum / count if count else None
