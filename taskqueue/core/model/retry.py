"""What a failure leads to: another attempt after a delay, or the end. One decision table, a pure function.

failed with      retry: false        over
                 retry_after         after that long, no retry used up; after PUT_OFF_AT_ONCE times in a row not before
                                     PUT_OFF_SECONDS
                 a host throttles    at once behind its equals, no retry used up; after THROTTLED_MOST in a row as below
                 a lease run out     at once after an attempt that had not, if a retry is left; else as below
                 anything else       retries left: after retry_delay[retried], at most age; else over
                                     recurring: never over: after the last delay or age, whichever is shorter

If a report says whether the attempt uses up a retry (``counts``), it is no matter whether the host throttles:

counts: true         as anything else, but after retry_after if that is said
counts: false        after retry_after, else after retry_delay[retried]; after PUT_OFF_AT_ONCE times in a row not before
                     PUT_OFF_SECONDS
"""

from __future__ import annotations

from typing import Final, NamedTuple

from taskqueue.core.model.recrawl_interval import good_for, recurs_after
from taskqueue.core.model.spec import Spec
from taskqueue.protocol.values import Schedule
from taskqueue.settings.settings import Settings

THROTTLED_MOST: Final = 20
"""How often in a row a host may throttle a task before that uses up its retries."""

PUT_OFF_AT_ONCE: Final = 2
"""How often in a row a fetcher may put a task off by less than PUT_OFF_SECONDS: it would run it without end."""

PUT_OFF_SECONDS: Final = 1.0


class Retry(NamedTuple):
    """Another attempt.

    Attributes:
        delay: seconds until it may be made; 0 is at once.
        counts: it uses up a retry.
        behind: it goes behind its equals.
    """

    delay: float
    counts: bool
    behind: bool = False


def after_failure(spec: Spec, settings: Settings, retried: int) -> Retry | None:
    """The next attempt of a task that has failed ``retried`` times before; None: it is over."""
    if not gives_up(spec.schedule, settings, retried + 1):
        return Retry(delay_after(spec, settings, retried), True)
    if recurs_after(spec.schedule) is not None:
        return Retry(delay_after(spec, settings, len(settings.retry_delay)), True)
    return None


def delay_after(spec: Spec, settings: Settings, retried: int) -> float:
    """Seconds that a task waits which has failed ``retried`` times before: a step of the table, at most its age."""
    table = settings.retry_delay
    delay = table[min(retried, len(table) - 1)]
    age = good_for(spec.schedule, spec.page)
    return delay if age is None else min(delay, age)


def after_put_off(seconds: float, times: int) -> Retry:
    """The next attempt of a task that its fetcher has put off, which makes ``times`` in a row."""
    return Retry(max(seconds, PUT_OFF_SECONDS) if times > PUT_OFF_AT_ONCE else seconds, False)


def after_throttle(spec: Spec, settings: Settings, retried: int, throttled: int) -> Retry | None:
    """The next attempt of a task whose host has asked for a pause, as it had ``throttled`` times in a row before."""
    if throttled < THROTTLED_MOST:
        return Retry(0.0, False, behind=True)
    return after_failure(spec, settings, retried)


def after_timeout(spec: Spec, settings: Settings, retried: int, *, timed_out: bool) -> Retry | None:
    """The next attempt of a task whose lease ran out; ``timed_out``: the attempt before had run out, too."""
    retry = after_failure(spec, settings, retried)
    if retry is None or timed_out:
        return retry
    return Retry(0.0, True)


def gives_up(schedule: Schedule, settings: Settings, failures: int) -> bool:
    """Whether so many failures exhaust the task's retries."""
    return failures > (settings.retries if schedule.retries is None else schedule.retries)
