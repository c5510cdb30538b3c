"""Histograms, which count values by class; and the finer bins for durations of attempts.

A ``Histogram`` has the bounds that it is made with; counting a value takes 0.2 µs. Attempts have these bins:

    ms   0 1 | 2 3 | 4 … 7 | 8 … 15 | 16 … 22 | 23 … 31 | 32 … 45 | …       half an octave each from 16 ms on
    bin   0     1      2       3         4         5         6       … 39, which has all from 49 minutes on

From 16 ms on the upper end of a bin is its lower end times the square root of 2, so the middle of the bin is within
18 % of each value in it (C. Masson, J. Rim, H. Lee, "DDSketch: a fast and fully-mergeable quantile sketch with
relative-error guarantees", 2019, with gamma = 2**0.5). The bit length of the square counts half octaves, so a bin is
found without a logarithm. Why not finer: docs/why/decisions/0009-percentile-bins.md.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import zip_longest
from math import ceil
from typing import Final

BINS: Final = 40
LAST: Final = BINS - 1

OCTAVES: Final = 24
"""Number of bins in older stores, which have one for each bit length of the milliseconds."""

HALVES_FROM: Final = 16
"""Milliseconds from which a bin is half an octave."""

HALVES_OFFSET: Final = 5
"""Difference of the bit length of the square of milliseconds and the bin."""

_FIRST_HALF: Final = 4
_LAST_MILLISECONDS: Final = 4_650_000.0
"""Milliseconds shown for attempts of 49 minutes or more: 78 minutes, as they may be much longer."""


def bin_of(milliseconds: int) -> int:
    """Return the bin of an attempt that took ``milliseconds``, at least 0."""
    if milliseconds < HALVES_FROM:
        return (milliseconds | 1).bit_length() - 1
    return min((milliseconds * milliseconds).bit_length() - HALVES_OFFSET, LAST)


def middle(place: int) -> float:
    """Return the milliseconds at the same ratio from both ends of a bin."""
    if place == LAST:
        return _LAST_MILLISECONDS
    low, high = _low(place), _low(place + 1)
    return 2 * low * high / (low + high)


def mean_and_p95(milliseconds: int, bins: Sequence[int]) -> tuple[float, float] | None:
    """Return mean and 95th percentile in seconds; None if there are no attempts.

    The percentile is the middle of its bin. If all attempts are in one bin, it is not below the mean, and exact for a
    single attempt; in the last bin neither holds.
    """
    count = sum(bins)
    if not count:
        return None
    mean = milliseconds / count
    place, longer = LAST, count // 20
    while longer >= bins[place]:
        longer -= bins[place]
        place -= 1
    p95 = middle(place)
    if bins[place] == count and place < LAST:
        p95 = mean if count == 1 else max(p95, mean)
    return mean / 1000, p95 / 1000


def of_octaves(octaves: Sequence[Sequence[int]]) -> list[list[int]]:
    """Convert the octaves of an older store to the present bins.

    An octave goes into its lower half, as the place within it is unknown.
    """
    found: list[list[int]] = [[] for _ in range(BINS)]
    for octave, added in enumerate(octaves):
        place = bin_of(1 << octave >> 1)
        found[place] = [sum(pair) for pair in zip_longest(found[place], added, fillvalue=0)]
    return found


def upper_seconds() -> list[float]:
    """Return, for each bin but the last one, the seconds below which an attempt belongs to it or to an earlier one."""
    return [(ceil(_low(place + 1)) - 0.5) / 1000 for place in range(LAST)]


def _low(place: int) -> float:
    """Return the milliseconds at which a bin begins; 1 for the first one, which has 0 as well."""
    return 2.0 ** (place if place < _FIRST_HALF else (place + _FIRST_HALF) / 2)


SECONDS: Final[tuple[float, ...]] = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
"""Bounds for operations of a computer."""

LATENESS_SECONDS: Final[tuple[float, ...]] = (
    0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0, 86400.0,
)  # fmt: skip
"""Bounds for waits, from none to a daemon that was away for a day."""

TASKS: Final[tuple[float, ...]] = tuple(float(1 << power) for power in range(13))
"""Bounds for tasks of a turn: 1 to 4096."""


class Histogram:
    """Counter of values by class.

    Attributes:
        bounds: upper bounds of the classes, ascending; a value that equals one belongs to its class.
        counts: number of values in each class, and above the last bound.
        sum: sum of all values.
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
