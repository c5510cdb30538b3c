"""Order: which task is next, and whose."""

from __future__ import annotations

import pytest

from tests.unit.core.conftest import World, task
from tests.unit.core.rules.conftest import DAY, comes_after


def test_a_higher_priority_goes_first_and_among_equals_who_came_first(world: World) -> None:
    world.push("news", task("a"), task("b", priority=1), task("c", priority=-1), task("d"), task("e", priority=1))

    assert world.fetcher().taken == ["b", "e", "a", "d", "c"]


def test_the_order_outlives_the_daemon(world: World) -> None:
    world.push("news", task("a"), task("b", priority=1), task("c"))
    world.restart()

    assert world.fetcher().taken == ["b", "a", "c"]


def test_a_delayed_task_is_never_early_and_then_its_priority_counts(world: World) -> None:
    fetcher = world.fetcher(capacity=1)
    world.push("news", task("a", delay=100, priority=9))
    world.push("news", task("b"))
    assert fetcher.taken == ["b"]
    world.push("news", task("c"))

    world.advance(50)
    fetcher.done("b")
    assert fetcher.taken == ["b", "c"]
    world.push("news", task("d"))
    world.advance(50)
    fetcher.hello()
    fetcher.done("c")
    assert fetcher.taken == ["b", "c", "a"]


def test_three_tasks_due_in_an_hour_do_not_delay_one_that_is_due_in_a_minute(world: World) -> None:
    fetcher = world.fetcher(capacity=4)
    world.push("news", *[task(f"late{i}", delay=3600) for i in range(3)])
    world.push("news", task("soon", delay=60))

    assert comes_after(world, fetcher, 60)
    assert fetcher.taken == ["soon"]


def share(world: World, project: str, tasks: int) -> float:
    """The project's part of the next tasks that a fetcher with one slot is given."""
    fetcher = world.fetcher(capacity=1)
    given = 0
    for _ in range(tasks):
        (held,) = fetcher.held.values()
        given += held.project == project
        fetcher.done(held.taskid)
    return given / tasks


def test_projects_with_work_get_equal_shares(world: World) -> None:
    world.push("news", *[task(f"n{i}") for i in range(700)])
    world.push("shop", *[task(f"s{i}") for i in range(700)])

    assert share(world, "news", 640) == pytest.approx(0.5, abs=0.03)


def test_tasks_that_wait_for_their_time_give_a_project_no_larger_share(world: World) -> None:
    world.push("news", *[task(f"later{i}", delay=DAY) for i in range(500)], *[task(f"n{i}") for i in range(700)])
    world.push("shop", *[task(f"s{i}") for i in range(700)])

    assert share(world, "news", 640) == pytest.approx(0.5, abs=0.03)


def test_a_fetcher_gets_tasks_only_of_the_projects_that_it_wants(world: World) -> None:
    world.push("news", task("a"))
    world.push("shop", task("b"))

    assert world.fetcher(projects=["shop"]).taken == ["b"]


def test_a_fetcher_never_holds_more_than_its_capacity(world: World) -> None:
    world.push("news", *[task(name) for name in "abcd"])

    fetcher = world.fetcher(capacity=2)
    assert fetcher.taken == ["a", "b"]
    fetcher.done("a")
    assert fetcher.taken == ["a", "b", "c"]
