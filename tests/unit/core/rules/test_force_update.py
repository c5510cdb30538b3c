"""force_update: the message wins over the stored task, up or down, earlier or later, in every state."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.core.conftest import Fetcher, World, body_of, task
from tests.unit.core.rules.conftest import (
    BACK_OFFS,
    CANCEL,
    FORCE,
    OVER,
    bring,
    bring_back_off,
    comes_after,
    never_comes,
    rest,
    run_out,
)

ENDS = ("done", "failed", "retried", "released", "lost", "silent", "timeout")


def end_lease(world: World, fetcher: Fetcher, how: str) -> None:
    """End the lease of "a"; the fetcher takes no further task."""
    if how in ("done", "failed"):
        assert fetcher.done("a", ok=how == "done", retry=False) == "done"
    elif how == "retried":
        assert fetcher.fail("a") == "done"
    elif how == "released":
        fetcher.release("a")
    elif how == "lost":
        fetcher.held.clear()
        rest(fetcher)
    elif how == "silent":
        world.advance(60)
        fetcher.held.clear()
    else:
        run_out(world, fetcher)
        fetcher.held.clear()


def order(world: World, fetcher: Fetcher, capacity: int) -> list[str]:
    """List the tasks that the fetcher gets now, in order."""
    taken = len(fetcher.taken)
    fetcher.capacity = capacity
    fetcher.hello()
    return fetcher.taken[taken:]


# ---------------------------------------------------------------------------------------- unknown


def test_force_update_of_an_unknown_task_is_new(world: World) -> None:
    assert world.push("news", task("a", **FORCE)) == ["new"]


# ---------------------------------------------------------------------------------------- ready


@pytest.mark.parametrize(("priority", "expected"), [(7, ["a", "b", "c"]), (1, ["b", "c", "a"])])
def test_force_update_moves_a_ready_task_up_and_down(world: World, priority: int, expected: list[str]) -> None:
    fetcher = bring(world, "ready", priority=4)
    world.push("news", task("b", priority=5), task("c", priority=3))

    assert world.push("news", task("a", priority=priority, **FORCE)) == ["replaced"]
    assert order(world, fetcher, 3) == expected


def test_force_update_lets_a_ready_task_wait(world: World) -> None:
    fetcher = bring(world, "ready")

    assert world.push("news", task("a", delay=500, **FORCE)) == ["replaced"]
    assert comes_after(world, fetcher, 500)


def test_force_update_brings_its_body_its_url_and_its_retries(world: World) -> None:
    fetcher = bring(world, "ready", retries=9)

    assert world.push("news", task("a", body="new", url="http://new", retries=0, **FORCE)) == ["replaced"]
    fetcher.hello()
    assert (body_of(fetcher.held["a"]), fetcher.held["a"].url) == ("new", "http://new")
    fetcher.fail("a")
    assert world.show("a").state == "failed"


def test_a_replaced_task_keeps_its_place_among_equals(world: World) -> None:
    fetcher = bring(world, "ready")
    world.push("news", task("b"))

    assert world.push("news", task("a", **FORCE)) == ["replaced"]
    assert order(world, fetcher, 2) == ["a", "b"]


# ---------------------------------------------------------------------------------------- delayed


@pytest.mark.parametrize("delay", [0.0, 10.0, 500.0])
def test_force_update_makes_a_delayed_task_due_earlier_or_later(world: World, delay: float) -> None:
    fetcher = bring(world, "delayed")

    assert world.push("news", task("a", delay=delay, **FORCE)) == ["replaced"]
    assert comes_after(world, fetcher, delay)


@pytest.mark.parametrize(("priority", "expected"), [(7, ["a", "b"]), (1, ["b", "a"])])
def test_force_update_moves_a_delayed_task_up_and_down(world: World, priority: int, expected: list[str]) -> None:
    fetcher = bring(world, "delayed", priority=4)
    world.push("news", task("b", delay=100, priority=5))

    assert world.push("news", task("a", delay=100, priority=priority, **FORCE)) == ["replaced"]
    world.advance(100)
    assert order(world, fetcher, 2) == expected


@pytest.mark.parametrize("delay", [0.0, 10.0, 1000.0])
@pytest.mark.parametrize("why", BACK_OFFS)
def test_force_update_makes_a_back_off_shorter_or_longer(world: World, why: str, delay: float) -> None:
    fetcher = bring_back_off(world, why, 500)

    assert world.push("news", task("a", delay=delay, **FORCE)) == ["replaced"]
    assert comes_after(world, fetcher, delay)


def test_force_update_gives_all_retries_back(world: World) -> None:
    fetcher = bring_back_off(world, "retry", 500)

    assert world.push("news", task("a", **FORCE)) == ["replaced"]
    fetcher.hello()
    assert fetcher.held["a"].retried == 0


def test_after_a_replacement_a_link_may_hurry_the_task_again(world: World) -> None:
    fetcher = bring_back_off(world, "retry", 500)

    assert world.push("news", task("a", delay=800, **FORCE), task("a", delay=20)) == ["replaced", "merged"]
    assert comes_after(world, fetcher, 20)


# ---------------------------------------------------------------------------------------- processing


@pytest.mark.parametrize("how", ENDS)
def test_force_update_of_a_task_that_is_processing_waits_for_its_end_however_it_ends(world: World, how: str) -> None:
    fetcher = bring(world, "processing")

    assert world.push("news", task("a", body="new", **FORCE)) == ["deferred"]
    assert body_of(fetcher.held["a"]) == "old"
    end_lease(world, fetcher, how)
    fetcher.hello()
    assert fetcher.taken == ["a", "a"]
    assert (body_of(fetcher.held["a"]), fetcher.held["a"].retried) == ("new", 0)


def test_the_answer_of_who_processes_the_task_still_counts(world: World) -> None:
    fetcher = bring(world, "processing")
    world.push("news", task("a", **FORCE))

    assert fetcher.done("a") == "done"
    assert world.project().totals.success == 1


def test_of_several_deferred_updates_the_last_one_wins(world: World) -> None:
    fetcher = bring(world, "processing")

    assert world.push("news", task("a", body="first", delay=9, **FORCE), task("a", body="last", **FORCE)) == [
        "deferred", "deferred",
    ]  # fmt: skip
    fetcher.done("a")
    fetcher.hello()
    assert body_of(fetcher.held["a"]) == "last"


@pytest.mark.parametrize(("priority", "expected"), [(7, ["a", "b", "c"]), (1, ["b", "c", "a"])])
def test_a_deferred_update_moves_the_task_up_and_down(world: World, priority: int, expected: list[str]) -> None:
    fetcher = bring(world, "processing", priority=4)
    world.push("news", task("b", priority=5), task("c", priority=3))

    world.push("news", task("a", priority=priority, **FORCE))
    fetcher.done("a")
    assert order(world, fetcher, 3) == expected


@pytest.mark.parametrize(("delay", "left"), [(10.0, 0.0), (500.0, 460.0)])
def test_the_delay_of_a_deferred_update_counts_from_its_arrival(world: World, delay: float, left: float) -> None:
    fetcher = bring(world, "processing")
    world.push("news", task("a", delay=delay, **FORCE))

    world.advance(40)
    fetcher.done("a")
    assert comes_after(world, fetcher, left)


def test_a_deferred_update_outlives_the_daemon(world: World) -> None:
    fetcher = bring(world, "processing")
    world.push("news", task("a", body="new", **FORCE))

    world.restart()
    rest(fetcher)
    assert fetcher.done("a") == "done"
    fetcher.hello()
    assert body_of(fetcher.held["a"]) == "new"


# ---------------------------------------------------------------------------------------- over


@pytest.mark.parametrize("state", OVER)
def test_force_update_restarts_a_task_that_is_over(world: World, state: str) -> None:
    fetcher = bring(world, state)

    assert world.push("news", task("a", body="new", **FORCE)) == ["restarted"]
    fetcher.hello()
    assert (body_of(fetcher.held["a"]), fetcher.held["a"].retried) == ("new", 0)


@pytest.mark.parametrize(("priority", "expected"), [(7, ["a", "b"]), (1, ["b", "a"])])
def test_a_restart_takes_the_priority_of_the_message_up_or_down(
    world: World, priority: int, expected: list[str]
) -> None:
    fetcher = bring(world, "success", priority=4)
    world.push("news", task("b", priority=5))

    assert world.push("news", task("a", priority=priority, **FORCE)) == ["restarted"]
    assert order(world, fetcher, 2) == expected


@pytest.mark.parametrize("delay", [0.0, 10.0, 500.0])
def test_a_restart_takes_the_time_of_the_message(world: World, delay: float) -> None:
    fetcher = bring(world, "success", delay=0.0)

    assert world.push("news", task("a", delay=delay, **FORCE)) == ["restarted"]
    assert comes_after(world, fetcher, delay)


def test_a_deferred_update_that_is_cancelled_runs_nothing(world: World) -> None:
    fetcher = bring(world, "processing")
    schedules: list[dict[str, Any]] = [FORCE, CANCEL]

    assert world.push("news", *[task("a", **each) for each in schedules]) == ["deferred", "cancelled"]
    assert fetcher.done("a") == "stale"
    assert never_comes(world, fetcher)
