"""Estimate of the remaining time: the pure function, with plain numbers of events. ``benchmarks`` has whole crawls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import pytest

from taskqueue.core.model.remaining import MARGIN, Limits, Work, estimate
from taskqueue.core.model.windows import Recent
from taskqueue.protocol.choices import RemainingReason
from taskqueue.protocol.fields import Wall
from taskqueue.protocol.projects import Remaining
from taskqueue.settings.environment import Hours

NOW = Wall(1_700_000_000.0)
PERIODS = 30
LEFT = 1000


def recent(seconds: float, ended: Sequence[int], new: Sequence[int] = (), retried: Sequence[int] = ()) -> Recent:
    """Make the events of each period, the present one first; earlier periods are empty."""
    columns = [[*each, *[0] * (PERIODS - len(each))] for each in (new, ended, retried)]
    return Recent(seconds, seconds, columns[0], columns[1], [a + b for a, b in zip(*columns[1:], strict=True)])


def minutes(ended: Sequence[int], new: Sequence[int] = (), retried: Sequence[int] = ()) -> Recent:
    return recent(10, ended, new, retried)


def hour(ended: Sequence[int], new: Sequence[int] = (), retried: Sequence[int] = ()) -> Recent:
    return recent(120, ended, new, retried)


STEADY = minutes([10] * PERIODS), hour([120] * PERIODS)
"""Events of a steady crawl: a task a second."""


def told(
    lately: tuple[Recent, Recent] = STEADY,
    rate: float = inf,
    stands: RemainingReason = "",
    hours: Callable[[float], Hours] = lambda at: Hours(True, inf),
    **work: Any,
) -> Remaining:
    known: dict[str, Any] = {"left": LEFT, "runnable": LEFT, "unfinished": LEFT, "held_back": 0, "later": 0}
    return estimate(Work(**(known | work)), Limits(stands, rate, 86_400.0), *lately, NOW, hours)


def ends_in(found: Remaining, seconds: float) -> bool:
    """Return whether the estimate is ``seconds``, with exactly the margin on both sides."""
    assert found.reason == ""
    return (found.soonest_seconds, found.latest_seconds) == pytest.approx(
        (seconds * (1 - MARGIN), seconds * (1 + MARGIN)), rel=0.001
    )


def test_a_steady_crawl_ends_when_what_is_left_has_been_done_at_its_rate() -> None:
    found = told()

    assert (found.done_rate, found.new_rate, found.left) == (1.0, 0.0, LEFT)
    assert ends_in(found, LEFT)


def test_the_range_goes_from_the_rate_of_five_minutes_to_that_of_the_hour() -> None:
    found = told((minutes([20] * PERIODS), hour([120] * PERIODS)))

    assert found.soonest_seconds == pytest.approx(LEFT / 2 * (1 - MARGIN))
    assert found.latest_seconds == pytest.approx(LEFT * (1 + MARGIN))


def test_no_rate_is_above_that_of_the_project() -> None:
    assert ends_in(told(rate=0.5), 2 * LEFT)


def test_a_rate_that_is_next_to_nothing_is_no_division_by_zero() -> None:
    assert told(rate=5e-324).reason == ""


def test_minutes_in_which_nobody_fetched_are_not_busy() -> None:
    away = [120, 120, *[0] * 10, 120, 120, 120, *[0] * 5]

    assert ends_in(told((minutes([10] * PERIODS), hour(away))), LEFT)


def test_a_slow_crawl_is_busy_between_its_tasks() -> None:
    lately = minutes([1, 0, 0] * 10), hour([4, 4] * 15)

    assert ends_in(told(lately, left=10, runnable=10), 300)


def test_a_crawl_that_brings_new_tasks_may_take_as_long_as_if_it_went_on_to() -> None:
    found = told((minutes([10] * PERIODS, [5] * PERIODS), hour([120] * PERIODS, [60] * PERIODS)))

    assert found.soonest_seconds == pytest.approx(LEFT * (1 - MARGIN))
    assert found.latest_seconds == pytest.approx(2 * LEFT * (1 + MARGIN))


def test_there_is_no_end_in_sight_while_more_comes_than_is_done() -> None:
    found = told((minutes([34] * PERIODS, [120] * PERIODS), hour([408] * PERIODS, [1440] * PERIODS)), unfinished=10**6)

    assert (found.reason, found.new_rate, found.done_rate) == ("growing", 12.0, 3.4)
    assert (found.soonest_seconds, found.latest_seconds) == (0.0, 0.0)


def test_what_was_pushed_at_once_is_no_growth() -> None:
    pushed = minutes([10] * 12, [0] * 11 + [5000]), hour([120], [5000])

    assert ends_in(told(pushed, unfinished=4880), LEFT)


@pytest.mark.parametrize("periods", range(1, 8))
@pytest.mark.parametrize("pushed_in", [1, 2])
def test_a_crawl_that_only_becomes_less_is_never_told_to_grow(periods: int, pushed_in: int) -> None:
    """300 tasks are pushed within a period or two and done at 4 a second; the estimate is read every ten seconds."""
    left = 300 - 40 * periods
    new = [*[0] * periods, 300]
    ended = [*[40] * (periods - 1), 35, 5]
    if pushed_in == 2:
        new[periods - 1 :] = [150, 150]
    found = told((minutes(ended, new), hour([sum(ended)], [300])), left=left, runnable=left, unfinished=left)

    assert found.reason in ("unclear", "")
    assert found.new_rate == 0.0


def test_a_crawl_that_grows_from_its_beginning_is_told_to_grow_in_its_first_minutes() -> None:
    lately = minutes([34] * 8, [120] * 8), hour([68, 204], [240, 720])

    assert told(lately, unfinished=688).reason == "growing"


def test_bursts_that_rise_as_high_again_and_again_have_no_end_in_sight() -> None:
    burst = [0, 0, 0, 0, 700]
    lately = minutes([10] * PERIODS), hour([120] * PERIODS, burst * 6)

    assert told(lately, unfinished=5000).reason == "growing"


def test_an_hour_that_ended_with_nothing_left_says_nothing_of_the_next_crawl() -> None:
    """As many tasks are pushed every ten minutes, and done before the next ones come."""
    lately = minutes([20] * 24), hour([240, 240, *[0, 0, 240, 240, 240] * 5], [0, 720, *[0, 0, 0, 0, 720] * 5])

    assert told(lately, left=240, runnable=240, unfinished=240).reason == ""


def test_it_is_not_clear_yet_after_a_long_rise() -> None:
    lately = minutes([20] * PERIODS), hour([240, 240, 240, *[120] * 12], [0, 0, 0, *[200] * 12])

    assert told(lately, unfinished=5000).reason in ("unclear", "growing")


@pytest.mark.parametrize(
    ("reason", "facts"),
    [
        ("nothing-left", {"left": 0, "runnable": 0, "held_back": 3}),
        ("stopped", {"stands": "stopped"}),
        ("paused", {"stands": "paused"}),
        ("out-of-hours", {"stands": "out-of-hours"}),
        ("no-rate", {"stands": "no-rate"}),
        ("blocked", {"runnable": 0}),
        ("too-few", {"lately": (minutes([19]), hour([19]))}),
        ("idle", {"lately": (minutes([]), hour([0, 0, 0, *[120] * 20]))}),
    ],
)
def test_it_says_why_no_time_is_known(reason: str, facts: dict[str, Any]) -> None:
    found = told(**facts)

    assert (found.reason, found.soonest_seconds, found.latest_seconds) == (reason, 0.0, 0.0)


def test_twenty_ends_are_enough() -> None:
    assert told((minutes([10, 10]), hour([20]))).reason != "too-few"


def test_what_waits_for_a_retry_or_for_its_time_gets_no_time() -> None:
    found = told(held_back=812, later=7, unfinished=LEFT + 812)

    assert (found.held_back, found.later, found.retry_seconds) == (812, 7, 86_400.0)
    assert ends_in(found, LEFT)


def test_time_passes_in_active_hours_only() -> None:
    """The project is open for ten minutes of each hour, of which five are left."""

    def hours(at: float) -> Hours:
        hour_began = NOW - 300 + (at - NOW + 300) // 3600 * 3600
        is_open = at < hour_began + 600
        return Hours(is_open, hour_began + (600 if is_open else 3600))

    found = told(hours=hours)

    assert found.soonest_seconds == pytest.approx(3600 - 300 + (900 - 300))
    assert found.latest_seconds == pytest.approx(2 * 3600 - 300 + (1100 - 300 - 600))


def test_beyond_a_month_of_active_hours_time_goes_on_as_it_did() -> None:
    def hours(at: float) -> Hours:
        began = NOW + (at - NOW) // 100 * 100
        return Hours(at < began + 50, began + (50 if at < began + 50 else 100))

    assert ends_in(told(hours=hours, left=10**6, runnable=10**6), 2 * 10**6)
