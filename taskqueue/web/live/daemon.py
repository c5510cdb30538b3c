"""Figures of the daemon in the last minutes, sampled while a browser shows its page."""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import Final, NamedTuple

from taskqueue.protocol.daemon import DaemonStatus, Histogram
from taskqueue.quantiles import mean, quantile

SPACING_SECONDS: Final = 2.0
"""Time between two samples, at least."""

SAMPLES_MOST: Final = 300
"""Samples kept: ten minutes."""

FORGOTTEN_SECONDS: Final = 30.0
"""Time without a browser after which sampling begins anew."""


class Pace(NamedTuple):
    """Pace of the daemon between two samples.

    Attributes:
        turns: turns a second; ``tasks``: tasks a turn.
        commit_half, commit_most: seconds in which half, and 99 of 100, commits were done.
    """

    turns: float
    tasks: float
    commit_half: float
    commit_most: float


class DaemonSamples:
    """Samples of one daemon, the oldest first."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, DaemonStatus]] = deque(maxlen=SAMPLES_MOST)

    def take(self, at: float, reply: DaemonStatus) -> None:
        """Add a sample of a reply at ``at`` seconds of a monotonic clock."""
        if self._samples:
            last, before = self._samples[-1]
            if at - last < SPACING_SECONDS and before.epoch == reply.epoch:
                return
            if before.epoch != reply.epoch or at - last > FORGOTTEN_SECONDS:
                self._samples.clear()
        self._samples.append((at, reply))

    @property
    def seconds(self) -> float:
        """Seconds that the samples span."""
        return self._samples[-1][0] - self._samples[0][0] if self._samples else 0.0

    def paces(self) -> list[Pace]:
        """Return the pace between each two samples."""
        return [_pace(before, now, since, at) for (since, before), (at, now) in pairwise(self._samples)]

    def histogram(self, name: str) -> Histogram | None:
        """Return the values added to a histogram between first and last sample; None if there are none."""
        if not self._samples:
            return None
        came = _came(self._samples[0][1], self._samples[-1][1], name)
        return came if came is not None and any(came.counts) else None


def _pace(before: DaemonStatus, now: DaemonStatus, since: float, at: float) -> Pace:
    turns = now.shell.get("turns", 0.0) - before.shell.get("turns", 0.0)
    tasks, commits = _came(before, now, "turn_tasks"), _came(before, now, "commit_seconds")
    half = quantile(commits, 0.5) if commits is not None else None
    most = quantile(commits, 0.99) if commits is not None else None
    each = mean(tasks) if tasks is not None else None
    return Pace(turns / (at - since), each or 0.0, half or 0.0, most or 0.0)


def _came(before: DaemonStatus, now: DaemonStatus, name: str) -> Histogram | None:
    old, new = before.histograms.get(name), now.histograms.get(name)
    if old is None or new is None or old.bounds != new.bounds:
        return None
    counts = [later - earlier for earlier, later in zip(old.counts, new.counts, strict=True)]
    return Histogram(new.bounds, counts, new.sum - old.sum)
