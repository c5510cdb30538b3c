"""Prefetch: number of tasks that wait for a place, after runs of given lengths; the clock is a number."""

from __future__ import annotations

import itertools

import pytest

from taskqueue.client.fetcher.intake import LOOK_SECONDS, MEDIAN_RUNS, Prefetch


def after(prefetch: Prefetch, runs: int, each: float, *, places: int = 1, since: float = 0.0) -> float:
    """Let runs end, in some places side by side; returns the time of the last end."""
    now = since
    for number in range(1, runs + 1):
        now = since + each * (number / places)
        prefetch.ran(each, now)
    return now


def test_nothing_waits_before_anything_is_known() -> None:
    assert Prefetch(10).size == 0


@pytest.mark.parametrize(
    ("places", "each", "waiting"), [(1, 0.001, 1), (8, 0.001, 8), (8, 0.08, 8), (8, 0.4, 2), (20, 0.5, 4), (1, 0.2, 0)]
)
def test_what_waits_is_what_the_places_finish_in_a_tenth_of_a_second(places: int, each: float, waiting: int) -> None:
    prefetch = Prefetch(places)

    after(prefetch, int(5 * places / each), each, places=places)

    assert prefetch.size == pytest.approx(waiting, abs=1 if each > 0.1 else 0)
    assert prefetch.size <= places


def test_nothing_waits_while_the_median_run_is_longer_than_a_second() -> None:
    prefetch = Prefetch(100)
    now = after(prefetch, 4000, 0.05, places=100)
    fast = prefetch.size

    after(prefetch, MEDIAN_RUNS, 1.1, places=100, since=now)

    assert (fast, prefetch.size) == (100, 0)


@pytest.mark.parametrize("fixed", [None, 0, 4])
def test_as_many_others_as_places_are_wanted_for_early_ones_but_while_nothing_is_known_or_runs_are_slow(
    fixed: int | None,
) -> None:
    prefetch = Prefetch(8, fixed)
    known = [prefetch.ahead]

    now = after(prefetch, MEDIAN_RUNS, 0.1)
    known.append(prefetch.ahead)
    prefetch.waited_too_long()
    known.append(prefetch.ahead)
    now = after(prefetch, 1, 0.3, since=now)
    known.append(prefetch.ahead)
    after(prefetch, MEDIAN_RUNS, 1.1, since=now)
    known.append(prefetch.ahead)

    assert known == [0, 8, 0, 8, 0]


def test_it_changes_at_most_five_times_a_second() -> None:
    prefetch = Prefetch(50)

    changes = [now for now in (n / 1000 for n in range(5000)) if prefetch.ran(0.001 if now < 2 else 0.9, now)]

    assert changes
    assert all(later - sooner >= LOOK_SECONDS for sooner, later in itertools.pairwise(changes))


def test_after_a_long_rest_one_quick_run_says_little() -> None:
    prefetch = Prefetch(8)
    after(prefetch, 1000, 0.001)

    prefetch.ran(0.001, 3600.0)

    assert prefetch.size == 0


def test_a_fixed_number_waits_from_the_start_but_not_beside_slow_runs() -> None:
    prefetch = Prefetch(1, 4)
    first = prefetch.size
    prefetch.ran(6.0, 6.0)
    slow = prefetch.size

    after(prefetch, MEDIAN_RUNS, 0.1, since=6.0)

    assert (first, slow, prefetch.size) == (4, 0, 4)


def test_nothing_waits_after_a_task_went_back_until_a_run_is_not_slow() -> None:
    prefetch = Prefetch(1, 4)
    after(prefetch, 10, 0.5)
    prefetch.waited_too_long()
    gone_back = prefetch.size
    prefetch.ran(60.0, 65.0)
    slow = prefetch.size

    prefetch.ran(0.5, 66.0)

    assert (gone_back, slow, prefetch.size) == (0, 0, 4)
