"""How long what is left of a project takes: a range of seconds, or the reason why there is none. One pure function.

    tasks left  ╭─╮ peak
              ╭─╯ ╰──╮      attempts and ends since the peak, by busy time, give two rates:
            ──╯      ╰── now    fastest   each attempt leaves one task fewer
                                slowest   as many come as came, and what failed comes again

Rules:
1. The range is from the fastest to the slowest rate of the last five minutes and of the last hour, and a margin.
2. No rate is above the project's own, or that of its shared bucket.
3. Three quiet periods in a row or more are not busy: nobody fetched, or the project was paused.
4. What came before nothing was left does not count.
5. There is no end in sight if what is left has not become fewer by more than chance, or peaks again and again as high;
   and more comes than ends, a single push aside. Else it is unclear yet.
6. What waits for a retry or for its time is counted apart, and gets no time.
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
"""Tasks that have to end in an hour for a time to be told."""

QUIET_PERIODS: Final = 3
"""In a row: they are not busy. At ENDS_LEAST in a window so many come by chance once in seven times."""

SIGMAS_OF_MINUTES: Final = 3.0
SIGMAS_OF_HOUR: Final = 2.0
"""What is left has become fewer if it has by so many times what its steps, period by period, come to by chance. Equal
steps down need the square of that in periods: 90 s, and 8 min.
"""

RISES_MOST: Final = 2
"""Periods in which a single push may arrive."""

MARGIN: Final = 0.1
"""The rate of some minutes tells no more than this part of the time."""

SLOWEST: Final = 1e-9
"""Tasks a second: a rate may be so small that it is 0 when it is divided."""

SWITCHES_MOST: Final = 32
"""Ends of active hours that are looked up; beyond them time is taken to pass as it did up to there."""


class Work(NamedTuple):
    """What is to be done.

    Attributes:
        left: tasks that wait for no time; ``runnable`` of them for no other task either.
        unfinished: tasks that have to end before the project is finished.
        held_back: of these, those that wait for a retry; None: not known yet.
        later: other delayed tasks.
    """

    left: int
    runnable: int
    unfinished: int
    held_back: int | None
    later: int


class Limits(NamedTuple):
    """What keeps the project from being faster.

    Attributes:
        stands: why it hands out nothing; empty: it does.
        rate: tasks a second, at most.
        retry_seconds: the longest delay before a retry, of those that the project's retries reach.
    """

    stands: RemainingReason
    rate: float
    retry_seconds: float


class _Drain(NamedTuple):
    """Tasks a second by which what is left became fewer."""

    fastest: float
    slowest: float


def estimate(
    work: Work, limits: Limits, minutes: Recent, hour: Recent, now: Wall, hours: Callable[[float], Hours]
) -> Remaining:
    """How far it is at ``now`` (unix seconds).

    Args:
        minutes, hour: what happened in the last five minutes and in the last hour.
        hours: see ``Environment``, of its active hours.
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
    """Why no time can be told, whatever the rates are."""
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
    """Whether there is no end in sight, or none to be seen yet."""
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
    """New tasks by period, without those of a single push: of a rise in RISES_MOST periods at most."""
    rises = [new > ended for new, ended in zip(recent.new, recent.ended, strict=True)]
    if sum(rises) > RISES_MOST:
        return recent.new
    return [0 if is_rise else new for new, is_rise in zip(recent.new, rises, strict=True)]


def _peaks_again(left: Sequence[int]) -> bool:
    """Whether the last peak is as high as the first, of several; the newest comes first."""
    peaks = [
        left[place]
        for place in range(1, len(left) - 1)
        if left[place - 1] <= left[place] and left[place] > left[place + 1]
    ]
    return len(peaks) > 1 and peaks[0] >= peaks[-1]


def _left_before(recent: Recent, unfinished: int) -> list[int]:
    """What was left before each period, the newest first, as far back as there was anything."""
    left: list[int] = []
    for new, ended in zip(recent.new, recent.ended, strict=True):
        unfinished += ended - new
        left.append(unfinished)
        if unfinished <= 0:
            break
    return left


def _drain(recent: Recent, unfinished: int, most: float, sigmas: float) -> _Drain | None:
    """How fast it became less since there was most; None: it has not, or too few have ended since."""
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
    """Seconds of the last periods in which there were attempts, and of short pauses between them."""
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
    """New tasks, without those of a single push, and ended tasks a second, since the first event of these minutes."""
    events = [new + attempts for new, attempts in zip(minutes.new, minutes.attempts, strict=True)]
    periods = max((place + 1 for place, count in enumerate(events) if count), default=0)
    if not periods:
        return 0.0, 0.0
    seconds = max(minutes.seconds, minutes.passed + (periods - 1) * minutes.seconds)
    return round(sum(_come(minutes)) / seconds, 3), round(sum(minutes.ended) / seconds, 3)


def _passing(seconds: float, now: Wall, hours: Callable[[float], Hours]) -> float:
    """How long it takes until so many seconds of active hours have passed."""
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
