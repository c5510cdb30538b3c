"""Outcome of a failure: another attempt after a delay, or the end. One decision table, a pure function.

failed with      retry: false        finished as failed
                 retry_after         after that long, no retry used up; after PUT_OFF_AT_ONCE times in a row not before
                                     PUT_OFF_SECONDS
                 a throttling host   at once behind its equals, no retry used up; after THROTTLED_MOST in a row as below
                 a lease run out     at once if the attempt before had not, and a retry is left; else as below
                 anything else       retries left: after retry_delay[retried], at most age; else finished
                                     recurring, never finished: after the last delay or age, whichever is shorter

If a report says whether the attempt uses up a retry (``counts``), throttling makes no difference:

counts: true         as anything else, but after retry_after if that is given
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
"""Times in a row that a host may throttle a task before that uses up its retries."""

PUT_OFF_AT_ONCE: Final = 2
"""Times in a row that a fetcher may put a task off by less than PUT_OFF_SECONDS; without a bound it would loop."""

PUT_OFF_SECONDS: Final = 1.0


class Retry(NamedTuple):
    """Another attempt.

    Attributes:
        delay: seconds until the attempt; 0 for at once.
        counts: True if it uses up a retry.
        behind: True if it goes behind its equals.
    """

    delay: float
    counts: bool
    behind: bool = False


def after_failure(spec: Spec, settings: Settings, retried: int) -> Retry | None:
    """Return the next attempt of a task that has failed ``retried`` times before; None if it has failed for good."""
    if not gives_up(spec.schedule, settings, retried + 1):
        return Retry(delay_after(spec, settings, retried), True)
    if recurs_after(spec.schedule) is not None:
        return Retry(delay_after(spec, settings, len(settings.retry_delay)), True)
    return None


def delay_after(spec: Spec, settings: Settings, retried: int) -> float:
    """Return the seconds until the next attempt after ``retried`` earlier failures: a table step, at most its age."""
    table = settings.retry_delay
    delay = table[min(retried, len(table) - 1)]
    age = good_for(spec.schedule, spec.page)
    return delay if age is None else min(delay, age)


def after_put_off(seconds: float, times: int) -> Retry:
    """Return the next attempt of a task that its fetcher has put off for the ``times``-th time in a row."""
    return Retry(max(seconds, PUT_OFF_SECONDS) if times > PUT_OFF_AT_ONCE else seconds, False)


def after_throttle(spec: Spec, settings: Settings, retried: int, throttled: int) -> Retry | None:
    """Return the next attempt of a task whose host throttles, as ``throttled`` times in a row before."""
    if throttled < THROTTLED_MOST:
        return Retry(0.0, False, behind=True)
    return after_failure(spec, settings, retried)


def after_timeout(spec: Spec, settings: Settings, retried: int, *, timed_out: bool) -> Retry | None:
    """Return the next attempt of a task whose lease ran out; ``timed_out`` if the attempt before had, too."""
    retry = after_failure(spec, settings, retried)
    if retry is None or timed_out:
        return retry
    return Retry(0.0, True)


def gives_up(schedule: Schedule, settings: Settings, failures: int) -> bool:
    """Return whether this number of failures exhausts the task's retries."""
    return failures > (settings.retries if schedule.retries is None else schedule.retries)
