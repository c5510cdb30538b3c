"""Estimate of a project's remaining time: a range of seconds, or a reason why there is none. One pure function.

    tasks left  ╭─╮ peak
              ╭─╯ ╰──╮      attempts and ends since the peak, by busy time, give two rates:
            ──╯      ╰── now    fastest   each attempt leaves one task fewer
                                slowest   new tasks and retries keep coming as before

Rules:
1. The range is from the fastest to the slowest rate of the last five minutes and of the last hour, plus a margin.
2. No rate is above the project's own, or that of its shared bucket.
3. Three or more quiet periods in a row are not busy: no fetcher worked, or the project was paused.
4. Events before the project was last empty do not count.
5. There is no end in sight if the tasks left have not become fewer by more than chance, or peak as high again and
   again; and more come than end, a single push aside. Otherwise it is unclear yet.
6. Tasks that wait for a retry or for their time are counted apart, and get no estimate.
7. Time passes only in active hours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import inf
from operator import sub
from typing import Final, NamedTuple

from msgspec.structs import replace

from taskqueue.core.model.windows import Recent
from taskqueue.protocol.choices import RemainingReason
from taskqueue.protocol.fields import Wall
from taskqueue.protocol.projects import Remaining
from taskqueue.settings.environment import Hours

ENDS_LEAST: Final = 20
"""Tasks that have to end in an hour for an estimate."""

QUIET_PERIODS: Final = 3
"""Quiet periods in a row that are not busy. With ENDS_LEAST ends in a window, chance makes as many once in seven times.
"""

SIGMAS_OF_MINUTES: Final = 3.0
SIGMAS_OF_HOUR: Final = 2.0
"""Multiples of the random deviation by which the tasks left must have become fewer.

The deviation adds up over the steps, period by period. Equal steps down need the square of it in periods: 90 s, and 8
min.
"""

RISES_MOST: Final = 2
"""Periods in which a single push may arrive, at most."""

MARGIN: Final = 0.1
"""Part of the time by which a rate measured over minutes may be wrong."""

SLOWEST: Final = 1e-9
"""Tasks a second below which no rate falls, so that dividing by it is safe."""

SWITCHES_MOST: Final = 32
"""Ends of active hours that are computed, at most; beyond them time passes at the average so far."""


class Work(NamedTuple):
    """Work of a project that is left.

    Attributes:
        left: tasks that wait for no time; ``runnable`` ones wait for no other task either.
        unfinished: tasks that have to end before the project is finished.
        held_back: those of them that wait for a retry; None if not known yet.
        later: other delayed tasks.
    """

    left: int
    runnable: int
    unfinished: int
    held_back: int | None
    later: int


class Limits(NamedTuple):
    """Limits of the project's speed.

    Attributes:
        stands: reason why it dispatches nothing; empty if it does.
        rate: tasks a second, at most.
        retry_seconds: longest delay before a retry, among those that the project's retries reach.
    """

    stands: RemainingReason
    rate: float
    retry_seconds: float


class _Drain(NamedTuple):
    """Tasks a second by which the tasks left became fewer."""

    fastest: float
    slowest: float


def estimate(
    work: Work, limits: Limits, minutes: Recent, hour: Recent, now: Wall, hours: Callable[[float], Hours]
) -> Remaining:
    """Estimate the remaining time at ``now`` (unix seconds).

    Args:
        minutes, hour: events of the last five minutes and of the last hour.
        hours: see ``Environment``; of the project's active hours.
    """
    new, done = _rates(minutes)
    found = Remaining(new, done, work.left, work.held_back, work.later, limits.retry_seconds)
    drains = [
        _drain(minutes, work.unfinished, limits.rate, SIGMAS_OF_MINUTES),
        _drain(hour, work.unfinished, limits.rate, SIGMAS_OF_HOUR),
    ]
    if reason := _stands(work, limits, minutes, hour) or _growing(minutes, hour, work, drains):
        return replace(found, reason=reason)
    rates = [drain for drain in drains if drain is not None]
    soonest = work.left / max(rate.fastest for rate in rates) * (1 - MARGIN)
    latest = work.left / min(rate.slowest for rate in rates) * (1 + MARGIN)
    return replace(
        found,
        soonest_seconds=round(_passing(soonest, now, hours), 1),
        latest_seconds=round(_passing(latest, now, hours), 1),
    )


def _stands(work: Work, limits: Limits, minutes: Recent, hour: Recent) -> RemainingReason:
    """Return a reason against an estimate at any rate; empty if there is none."""
    if not work.left:
        return "nothing-left"
    if limits.stands:
        return limits.stands
    if not work.runnable:
        return "blocked"
    if sum(hour.ended) < ENDS_LEAST:
        return "too-few"
    return "" if any(minutes.attempts) else "idle"


def _growing(minutes: Recent, hour: Recent, work: Work, drains: Sequence[_Drain | None]) -> RemainingReason:
    """Return ``growing`` or ``unclear`` if no end is in sight; empty if one is."""
    lately, hourly = drains
    left = [work.unfinished, *_left_before(hour, work.unfinished)]
    is_one_push = sum(after > before for after, before in pairwise(left)) <= RISES_MOST
    if sum(minutes.ended) < ENDS_LEAST:
        is_less = hourly is not None
    else:
        is_less = lately is not None and (hourly is not None or is_one_push)
    if is_less and not _peaks_again(left):
        return ""
    is_higher = not is_one_push and left[0] > left[len(left) // 2]
    is_more = sum(_come(minutes)) > sum(minutes.ended) or is_higher
    return "growing" if is_more else "unclear"


def _come(recent: Recent) -> list[int]:
    """Return new tasks by period, without those of a single push: of a rise in RISES_MOST periods at most."""
    rises = [new > ended for new, ended in zip(recent.new, recent.ended, strict=True)]
    if sum(rises) > RISES_MOST:
        return recent.new
    return [0 if is_rise else new for new, is_rise in zip(recent.new, rises, strict=True)]


def _peaks_again(left: Sequence[int]) -> bool:
    """Return whether the last of several peaks is as high as the first; the newest value comes first."""
    peaks = [
        left[place]
        for place in range(1, len(left) - 1)
        if left[place - 1] <= left[place] and left[place] > left[place + 1]
    ]
    return len(peaks) > 1 and peaks[0] >= peaks[-1]


def _left_before(recent: Recent, unfinished: int) -> list[int]:
    """Return the tasks left before each period, the newest first, back to when there were none."""
    left: list[int] = []
    for new, ended in zip(recent.new, recent.ended, strict=True):
        unfinished += ended - new
        left.append(unfinished)
        if unfinished <= 0:
            break
    return left


def _drain(recent: Recent, unfinished: int, most: float, sigmas: float) -> _Drain | None:
    """Return the rates since the peak of tasks left; None if they have not become fewer, or too few have ended."""
    left = _left_before(recent, unfinished)
    periods = left.index(max(left)) + 1 if left else 0
    steps = list(map(sub, recent.ended[:periods], recent.new[:periods]))
    fewer = sum(steps)
    is_chance = fewer * fewer < sigmas * sigmas * sum(step * step for step in steps)
    if sum(recent.ended[:periods]) < ENDS_LEAST or fewer <= 0 or is_chance:
        return None
    attempts, seconds = sum(recent.attempts[:periods]), _busy_seconds(recent, periods)
    slowed = min(1.0, most * seconds / attempts)
    return _Drain(max(SLOWEST, attempts / seconds * slowed), max(SLOWEST, fewer / seconds * slowed))


def _busy_seconds(recent: Recent, periods: int) -> float:
    """Return the seconds of the last periods with attempts, and of short pauses between them."""
    seconds, quiet = 0.0, 0.0
    length = recent.passed
    in_a_row = 0
    for attempts in recent.attempts[:periods]:
        if attempts:
            seconds += length + (quiet if in_a_row < QUIET_PERIODS else 0.0)
            quiet, in_a_row = 0.0, 0
        else:
            quiet, in_a_row = quiet + length, in_a_row + 1
        length = recent.seconds
    return max(1.0, seconds + (quiet if in_a_row < QUIET_PERIODS else 0.0))


def _rates(minutes: Recent) -> tuple[float, float]:
    """Return new tasks, without those of a single push, and ended tasks, per second since the first event."""
    events = [new + attempts for new, attempts in zip(minutes.new, minutes.attempts, strict=True)]
    periods = max((place + 1 for place, count in enumerate(events) if count), default=0)
    if not periods:
        return 0.0, 0.0
    seconds = max(minutes.seconds, minutes.passed + (periods - 1) * minutes.seconds)
    return round(sum(_come(minutes)) / seconds, 3), round(sum(minutes.ended) / seconds, 3)


def _passing(seconds: float, now: Wall, hours: Callable[[float], Hours]) -> float:
    """Return the seconds until ``seconds`` of active hours have passed."""
    at, open_seconds = float(now), 0.0
    for _ in range(SWITCHES_MOST):
        is_open, until = hours(at)
        if is_open and open_seconds + until - at >= seconds:
            return at + seconds - open_seconds - now
        if until == inf:
            return inf
        open_seconds += until - at if is_open else 0.0
        at = until
    return (at - now) * seconds / open_seconds if open_seconds else inf
