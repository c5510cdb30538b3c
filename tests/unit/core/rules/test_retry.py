"""done, not ok: another attempt after a delay, or the end."""

from __future__ import annotations

import pytest

from tests.unit.core.conftest import Fetcher, MakeWorld, World, task
from tests.unit.core.rules.conftest import DAY, HOUR, bring, comes_after, never_comes


def attempts(world: World, fetcher: Fetcher) -> int:
    """Count the dispatches of a task that always fails."""
    while fetcher.held:
        assert fetcher.fail("a") == "done"
        world.advance(2 * DAY)
        fetcher.hello()
    return len(fetcher.taken)


# ---------------------------------------------------------------------------------------- the table


def test_a_failed_task_is_tried_again_after_30_s_1_h_6_h_12_h_and_then_each_24_h(world: World) -> None:
    fetcher = bring(world, "processing", retries=6)

    for retried, delay in enumerate([30.0, HOUR, 6 * HOUR, 12 * HOUR, DAY, DAY]):
        assert fetcher.held["a"].retried == retried
        assert fetcher.fail("a") == "done"
        assert comes_after(world, fetcher, delay)


def test_a_project_has_delays_of_its_own_and_the_last_one_stands_for_all_that_follow(world: World) -> None:
    world.set(retry_delay=[5.0, 10.0])
    fetcher = bring(world, "processing")

    for delay in (5.0, 10.0, 10.0):
        fetcher.fail("a")
        assert comes_after(world, fetcher, delay)


def test_the_delay_is_not_longer_than_the_age(world: World) -> None:
    fetcher = bring(world, "processing", age=120)

    for delay in (30.0, 120.0, 120.0):
        fetcher.fail("a")
        assert comes_after(world, fetcher, delay)


# ---------------------------------------------------------------------------------------- retries


def test_a_task_that_always_fails_is_run_four_times(world: World) -> None:
    assert attempts(world, bring(world, "processing")) == 4
    assert world.show("a").state == "failed"


@pytest.mark.parametrize(("own", "expected"), [(None, 3), (0, 1), (5, 6)])
def test_a_task_has_its_own_number_of_retries_or_its_projects(
    make_world: MakeWorld, own: int | None, expected: int
) -> None:
    world = make_world({"retries": 2})

    assert attempts(world, bring(world, "processing", retries=own)) == expected


def test_the_reason_of_the_last_failure_is_shown(world: World) -> None:
    fetcher = bring(world, "processing", retries=1)

    fetcher.fail("a", error="connection refused")
    assert world.show("a").error == "connection refused"
    assert comes_after(world, fetcher, 30)
    fetcher.fail("a", error="404")
    shown = world.show("a")
    assert (shown.state, shown.error) == ("failed", "404")


def test_a_failed_task_stays_failed_until_somebody_wants_it_again(world: World) -> None:
    fetcher = bring(world, "failed")

    assert never_comes(world, fetcher)
    assert world.push("news", task("a", force_update=True)) == ["restarted"]


# ---------------------------------------------------------------------------------------- retry_after


@pytest.mark.parametrize("seconds", [0.0, 7.0, DAY])
def test_retry_after_delays_by_that_much(world: World, seconds: float) -> None:
    fetcher = bring(world, "processing")

    assert fetcher.fail("a", retry_after=seconds) == "done"
    assert comes_after(world, fetcher, seconds)


def test_retry_after_uses_up_no_retry(world: World) -> None:
    fetcher = bring(world, "processing", retries=0)

    for _ in range(5):
        fetcher.fail("a", retry_after=10.0)
        assert comes_after(world, fetcher, 10)
        assert fetcher.held["a"].retried == 0


def test_retry_after_is_not_capped_by_the_age(world: World) -> None:
    fetcher = bring(world, "processing", age=60, auto_recrawl=True)

    fetcher.fail("a", retry_after=HOUR)
    assert comes_after(world, fetcher, HOUR)


# ---------------------------------------------------------------------------------------- retry: false


def test_retry_false_fails_a_task_at_once(world: World) -> None:
    fetcher = bring(world, "processing")

    assert fetcher.fail("a", error="404", retry=False) == "done"
    assert world.show("a").state == "failed"
    assert never_comes(world, fetcher)


def test_retry_false_ends_a_recurring_task_too(world: World) -> None:
    fetcher = bring(world, "processing", age=HOUR, auto_recrawl=True)

    fetcher.fail("a", retry=False)
    assert never_comes(world, fetcher)


def test_retry_false_wins_over_retry_after(world: World) -> None:
    fetcher = bring(world, "processing")

    fetcher.fail("a", retry=False, retry_after=10.0)
    assert never_comes(world, fetcher)
