"""Was the pace ever exceeded? Judged from outside, without trusting the scheduler's own clock or bucket.

A project may be handed burst + rate × t tasks in any window of t seconds. When exactly a task was handed out can't be
seen from outside, but it can be bracketed:

* A *look* asks the scheduler how many tasks it has handed out so far. What it answers was true at some moment after
  the question was asked, so at ``asked_at`` at most ``handed_out`` tasks had been handed out.
* A task whose page arrives at the site at time b has been handed out before b. So by then at least as many tasks had
  been handed out as pages had arrived.

Hence between any look and any later arrival at least ``arrived - handed_out`` tasks were handed out, in less than
b - asked_at seconds. If that is more than burst + rate × (b - asked_at), the pace was exceeded: there are no false
alarms, however late messages and answers are. What stays unseen is an excess that fits between two looks.

The fastest window is the one that used most of the burst: where count - rate × t is greatest. That is a difference of
a term of its end and a term of its start, so one pass with a running minimum finds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isinf
from typing import NamedTuple


class Sample(NamedTuple):
    """A project's figures as the scheduler reported them.

    Attributes:
        asked_at: monotonic seconds before the request was sent.
        handed_out: tasks of the project handed out so far.
        rate, burst: of the project.
    """

    asked_at: float
    handed_out: int
    rate: float
    burst: float


class Window(NamedTuple):
    """A time window, the tasks handed out in it, and the project's pace."""

    seconds: float
    tasks: int
    rate: float
    burst: float

    @property
    def allowed(self) -> float:
        """Tasks that the pace allows in the window."""
        return self.burst + self.rate * self.seconds

    @property
    def is_within(self) -> bool:
        """Whether the pace was kept, up to rounding: the times have microseconds."""
        return self.tasks <= self.allowed + 1e-3


def fastest(samples: Sequence[Sample], arrivals: Iterable[float]) -> Window | None:
    """The window that used most of the burst; None if nothing arrived or the rate is unlimited.

    If the rate or the burst was changed on the way, the highest counts.

    Args:
        samples: in the order of time; the first one before any of the arrivals was handed out.
        arrivals: monotonic seconds, in order.
    """
    rate = max((look.rate for look in samples), default=0.0)
    if isinf(rate):
        return None
    burst = max((look.burst for look in samples), default=0.0)
    windows = _steepest(samples, arrivals, rate)
    return max(
        (Window(end - start.asked_at, count, rate, burst) for start, end, count in windows),
        key=lambda window: window.tasks - window.allowed,
        default=None,
    )


def _steepest(samples: Sequence[Sample], arrivals: Iterable[float], rate: float) -> Iterable[tuple[Sample, float, int]]:
    """Per arrival: the sample that begins its fastest window, the arrival's time, and the tasks between them."""
    start = samples[0] if samples else None
    upcoming = 1
    for arrived, at in enumerate(arrivals, 1):
        while upcoming < len(samples) and samples[upcoming].asked_at < at:
            start = min(start or samples[0], samples[upcoming], key=lambda look: look.handed_out - rate * look.asked_at)
            upcoming += 1
        if start:
            yield start, at, samples[0].handed_out + arrived - start.handed_out
