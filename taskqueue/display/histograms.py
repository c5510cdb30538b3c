"""What a histogram tells in a few numbers."""

from __future__ import annotations

from itertools import accumulate
from math import inf

from taskqueue.protocol.daemon_messages import HistogramView


def quantile(histogram: HistogramView, part: float) -> float | None:
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


def mean(histogram: HistogramView) -> float | None:
    """None: no values."""
    count = sum(histogram.counts)
    return histogram.sum / count if count else None
