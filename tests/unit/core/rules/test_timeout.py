"""Leases that expire, are extended, or are given back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from taskqueue.protocol.fetchers import Fetchers, FetchersReply
from taskqueue.protocol.insight import Watch, WatchReply, Why, WhyReply
from taskqueue.store.records import layout
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


# ---------------------------------------------------------------------------------------- slow


def slow(world: World) -> list[tuple[str, float]]:
    """List outcome and seconds of the task's attempts, the newest first."""
    return [(each.outcome, each.seconds) for each in world.show("a").history]


def test_when_four_fifths_of_a_lease_have_passed_the_history_of_the_task_says_so(world: World) -> None:
    fetcher = bring(world, "processing")
    run_out(world, fetcher, 479)
    assert slow(world) == []

    run_out(world, fetcher, 1)
    shown = world.show("a")
    assert (shown.state, shown.lease_seconds) == ("processing", 120)
    assert [(each.outcome, each.fetcher, each.error) for each in shown.history] == [
        ("slow", "fetcher", "four fifths of its lease have passed")
    ]
    run_out(world, fetcher, 119)
    assert len(slow(world)) == 1
    run_out(world, fetcher, 1)
    assert slow(world) == [("timeout", 600), ("slow", 480)]


def test_a_task_that_ends_before_is_never_slow(world: World) -> None:
    fetcher = bring(world, "processing")
    run_out(world, fetcher, 479)
    fetcher.done("a")
    world.advance(HOUR)

    assert slow(world) == [("success", 479)]


def test_an_extension_moves_the_warning_and_a_later_one_comes_again(world: World) -> None:
    fetcher = bring(world, "processing")
    run_out(world, fetcher, 400)
    fetcher.extend("a")
    run_out(world, fetcher, 479)
    assert slow(world) == []
    run_out(world, fetcher, 1)
    assert slow(world) == [("slow", 880)]

    fetcher.extend("a", seconds=100)
    run_out(world, fetcher, 80)
    assert slow(world) == [("slow", 960), ("slow", 880)]
    fetcher.done("a")
    assert slow(world)[0] == ("success", 960)


def test_slow_tasks_of_a_fetcher_are_counted_until_they_end_or_are_extended(world: World) -> None:
    world.push("news", task("a"), task("b"))
    fetcher = world.fetcher()
    run_out(world, fetcher, 480)
    assert counted(world) == (2, 2)
    fetcher.extend("a")
    assert counted(world) == (1, 1)
    fetcher.done("b")

    assert counted(world) == (0, 0)


def test_watchers_see_how_many_tasks_of_a_project_are_slow(world: World) -> None:
    world.push("news", task("a"), task("b"), task("c"))
    fetcher = world.fetcher()
    run_out(world, fetcher, 480)
    assert watched(world) == {"news": 3, "shop": 0}
    fetcher.extend("a")
    fetcher.done("b")

    assert watched(world) == {"news": 1, "shop": 0}
    run_out(world, fetcher, 120)
    assert watched(world) == {"news": 0, "shop": 0}


def watched(world: World) -> dict[str, int]:
    """Return the slow tasks of each project, as a watcher sees them."""
    reply = world.ask(WatchReply, Watch(session="person", n=world.n(), seconds=0))
    return {each.name: each.slow for each in reply.projects}


def test_an_event_reports_a_slow_task_once_in_five_minutes(world: World) -> None:
    world.push("news", task("a", timeout=100), task("b", timeout=200), task("c", timeout=500))
    fetcher = world.fetcher()

    run_out(world, fetcher, 370)
    (event,) = [each for each in world.happened if each.kind == "slow"]
    assert event.reason.startswith("task 'a' has run for ")
    assert event.reason.endswith(" at fetcher: four fifths of its lease have passed")
    run_out(world, fetcher, 30)

    reasons = [each.reason for each in world.happened if each.kind == "slow"]
    assert [reason.split()[1] for reason in reasons] == ["'a'", "'c'"]


def test_after_a_restart_the_next_slow_task_is_an_event_again(world: World) -> None:
    world.push("news", task("a", timeout=100), task("b", timeout=200))
    fetcher = world.fetcher()
    run_out(world, fetcher, 90)
    fetcher.done("a")
    world.restart()
    run_out(world, fetcher, 90)

    reasons = [each.reason for each in world.happened if each.kind == "slow"]
    assert [reason.split()[1] for reason in reasons] == ["'a'", "'b'"]


def counted(world: World) -> tuple[int, int]:
    """Return the slow leases of the only fetcher, and of all."""
    reply = world.ask(FetchersReply, Fetchers(session="person", n=world.n()))
    (view,) = reply.fetchers
    return view.slow, reply.slow


def test_after_a_restart_four_fifths_of_what_is_left_count(world: World) -> None:
    fetcher = bring(world, "processing")
    run_out(world, fetcher, 500)
    world.restart()
    fetcher.hello(capacity=0)
    run_out(world, fetcher, 79)
    assert slow(world) == [("slow", 480)]
    run_out(world, fetcher, 1)

    assert slow(world) == [("slow", 580), ("slow", 480)]


def test_a_clear_leaves_nothing_of_the_history_of_a_slow_task(world: World) -> None:
    fetcher = bring(world, "processing")
    run_out(world, fetcher, 480)
    world.crash()
    world.do("clear")
    world.settle()

    assert not world.disk.families[layout.HISTORY].keys


def test_why_says_of_a_running_task_that_it_is_slow(world: World) -> None:
    fetcher = bring(world, "processing")
    run_out(world, fetcher, 480)
    said = world.ask(WhyReply, Why(session="person", n=world.n(), project="news", taskid="a")).sentence

    assert said.endswith("its lease ends in 2 min, four fifths of it have passed")
