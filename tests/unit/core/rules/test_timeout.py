"""Leases that expire, are extended, or are given back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.core.conftest import Fetcher, MakeWorld, World, task
from tests.unit.core.rules.conftest import HOUR, bring, comes_after, rest, run_out

# ---------------------------------------------------------------------------------------- how long


def test_a_fetcher_has_the_processing_timeout_of_the_project(make_world: MakeWorld) -> None:
    world = make_world({"processing_timeout": 200})
    fetcher = bring(world, "processing")
    assert fetcher.held["a"].timeout == 200

    run_out(world, fetcher, 199)
    assert world.show("a").state == "processing"
    run_out(world, fetcher, 1)
    assert world.show("a").state == "ready"


def test_a_task_may_have_a_timeout_of_its_own(world: World) -> None:
    fetcher = bring(world, "processing", timeout=1000)
    assert fetcher.held["a"].timeout == 1000

    run_out(world, fetcher, 999)
    assert world.show("a").state == "processing"
    run_out(world, fetcher, 1)
    assert world.show("a").state == "ready"


def test_a_hello_does_not_lengthen_a_lease_but_extend_does(world: World) -> None:
    fetcher = bring(world, "processing")

    run_out(world, fetcher, 500)
    assert fetcher.extend("a").counted == 1
    run_out(world, fetcher, 599)
    assert world.show("a").state == "processing"
    run_out(world, fetcher, 1)
    assert world.show("a").state == "ready"


# ---------------------------------------------------------------------------------------- what follows


def test_a_lease_that_ran_out_is_a_failure_with_the_reason_timeout(world: World) -> None:
    fetcher = bring(world, "processing", retries=0)

    run_out(world, fetcher)
    shown = world.show("a")
    assert (shown.state, shown.error) == ("failed", "timeout")


def test_after_the_first_timeout_a_task_is_tried_again_at_once_and_by_the_table_after_that(world: World) -> None:
    fetcher = bring(world, "processing")

    for retried, delay in [(1, 0.0), (2, HOUR), (3, 6 * HOUR)]:
        run_out(world, fetcher)
        fetcher.held.clear()
        assert comes_after(world, fetcher, delay)
        assert fetcher.held["a"].retried == retried
    run_out(world, fetcher)
    assert world.show("a").state == "failed"


def test_a_timeout_is_counted(world: World) -> None:
    fetcher = bring(world, "processing", retries=1)
    run_out(world, fetcher)

    totals = world.project().totals
    assert (totals.timeout, totals.retried, totals.failed) == (1, 1, 0)


# ---------------------------------------------------------------------------------------- given back


def test_a_task_that_is_released_goes_to_the_next_fetcher_and_uses_up_no_retry(world: World) -> None:
    fetcher = bring(world, "processing", retries=0)
    world.push("news", task("b"))

    assert fetcher.release("a").counted == 1
    other = world.fetcher(name="other")
    assert other.taken == ["a", "b"]
    assert other.held["a"].retried == 0


def test_a_fetcher_that_is_silent_gives_back_what_it_holds_and_no_retry_is_used_up(world: World) -> None:
    bring(world, "processing", retries=0)
    other = world.fetcher(name="other")

    world.advance(59)
    other.hello()
    assert other.taken == []
    world.advance(1)
    assert other.taken == ["a"]
    assert other.held["a"].retried == 0


def test_a_task_that_got_lost_on_its_way_is_handed_out_again_and_no_retry_is_used_up(world: World) -> None:
    fetcher = bring(world, "processing", retries=0)

    fetcher.held.clear()
    fetcher.hello()
    assert fetcher.taken == ["a", "a"]
    assert fetcher.held["a"].retried == 0


def _let_go(fetcher: Fetcher) -> None:
    fetcher.held.clear()
    fetcher.hello(capacity=0)


@pytest.mark.parametrize("let_go", [_let_go, lambda fetcher: fetcher.release("a")], ids=["unstated", "released"])
@pytest.mark.parametrize("bodies", ["in memory", "in the store"])
def test_what_a_fetcher_gives_back_in_the_moment_in_which_its_lease_ends_has_timed_out(
    make_world: MakeWorld, let_go: Callable[[Fetcher], object], bodies: str
) -> None:
    world = make_world(head_tasks=16)
    fetcher = bring(world, "processing", retries=0)
    if bodies == "in the store":
        world.restart()
        rest(fetcher)
    run_out(world, fetcher, 599)

    world.elapsed += 1
    let_go(fetcher)

    shown = world.show("a")
    assert (shown.state, shown.error) == ("failed", "timeout")
    assert world.project().totals.timeout == 1
    assert world.fetcher(name="other").taken == []


@pytest.mark.parametrize("clean", [False, True])
def test_a_restart_of_the_daemon_ends_no_lease(world: World, clean: bool) -> None:
    fetcher = bring(world, "processing")

    world.restart(clean=clean)
    other = world.fetcher(name="other")
    rest(fetcher)
    assert other.taken == []
    assert fetcher.done("a") == "done"
