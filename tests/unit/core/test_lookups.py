"""Heads and floors: more tasks in the store than in memory, without a difference for clients."""

from __future__ import annotations

from math import inf

import pytest

from taskqueue.settings.settings import CoreConfig, Layer
from tests.unit.core.conftest import WALL, World, task


def names(count: int) -> list[str]:
    return [f"t{number:03}" for number in range(count)]


@pytest.fixture(params=[2, 3, 8, 4096])
def deep(request: pytest.FixtureRequest) -> World:
    """Make a world with 40 ready tasks of priorities 3, 2, 1, 0, 3, … and 40 that are due one a second."""
    world = World(CoreConfig(defaults={"rate": inf}, projects={"news": {}}, head_tasks=request.param))
    for i, name in enumerate(names(40)):
        world.push("news", task(name, priority=3 - i % 4))
    for i, name in enumerate(names(40)):
        world.push("news", task(f"d{name}", delay=100 + i - world.elapsed))
    return world


def in_order() -> list[str]:
    return [name for first in range(4) for name in names(40)[first::4]]


def take_all(world: World) -> list[str]:
    fetcher = world.fetcher(capacity=1)
    fetcher.finish_all()
    return fetcher.taken


def test_all_tasks_come_in_their_order(deep: World) -> None:
    assert take_all(deep) == in_order()


def test_all_tasks_come_in_their_order_after_a_restart(deep: World) -> None:
    deep.restart()

    assert take_all(deep) == in_order()


def test_a_restart_between_any_two_tasks_changes_nothing(deep: World) -> None:
    fetcher = deep.fetcher(capacity=1)
    for _ in range(40):
        fetcher.done(next(iter(fetcher.held)))
        deep.restart()
        fetcher.hello()

    assert fetcher.taken == in_order()


def test_delayed_tasks_come_at_their_times(deep: World) -> None:
    take_all(deep)
    fetcher = deep.fetcher(name="other")

    for i, name in enumerate(names(40)):
        deep.advance(WALL + 100 + i - deep.now.wall)
        fetcher.hello()
        assert fetcher.taken[-1] == f"d{name}"


@pytest.mark.parametrize("restarted", [False, True])
def test_a_task_above_the_floor_that_is_raised_below_it_comes_first(deep: World, restarted: bool) -> None:
    if restarted:
        deep.restart()

    assert deep.push("news", task("t039", priority=9), task("t003", priority=8)) == ["merged", "merged"]
    assert take_all(deep)[:3] == ["t039", "t003", "t000"]


@pytest.mark.parametrize("restarted", [False, True])
def test_a_task_below_the_floor_that_is_lowered_above_it_comes_last(deep: World, restarted: bool) -> None:
    if restarted:
        deep.restart()

    assert deep.push("news", task("t000", priority=-5, force_update=True)) == ["replaced"]
    assert take_all(deep) == [*in_order()[1:], "t000"]


@pytest.mark.parametrize("restarted", [False, True])
def test_tasks_are_cancelled_wherever_they_wait(deep: World, restarted: bool) -> None:
    if restarted:
        deep.restart()
    gone = ["t000", "t039", "dt000", "dt039"]

    outcomes = deep.push("news", *[task(name, cancel=True, force_update=True) for name in gone])
    assert outcomes == ["cancelled"] * 4
    assert take_all(deep) == [name for name in in_order() if name not in gone]
    deep.advance(200)
    assert deep.counts().ready == 38


@pytest.mark.parametrize("restarted", [False, True])
def test_a_delayed_task_far_away_is_brought_forward(deep: World, restarted: bool) -> None:
    if restarted:
        deep.restart()

    assert deep.push("news", task("dt039", delay=1)) == ["merged"]
    deep.advance(1)
    assert deep.show("dt039").state == "ready"
    assert deep.counts().delayed == 39


def test_new_tasks_of_any_priority_find_their_place(deep: World) -> None:
    deep.push("news", task("top", priority=9), task("bottom", priority=-9), task("middle", priority=2))

    taken = take_all(deep)
    assert (taken[0], taken[-1]) == ("top", "bottom")
    assert taken.index("middle") == 21


def test_a_batch_much_larger_than_the_head_comes_in_order(deep: World) -> None:
    deep.push("news", *[task(f"x{name}", priority=5) for name in reversed(names(300))])

    assert take_all(deep)[:300] == [f"x{name}" for name in reversed(names(300))]


def test_heads_hold_no_more_than_their_bound_after_each_turn() -> None:
    world = World(CoreConfig(defaults={"rate": inf}, projects={"news": {}}, head_tasks=8))

    world.push("news", *[task(name) for name in names(200)])
    world.push("news", *[task(f"d{name}", delay=50) for name in names(200)])
    assert world.tasks_in_memory() <= 16
    world.restart()
    assert world.tasks_in_memory() <= 16
    world.advance(50)
    assert world.tasks_in_memory() <= 16


def test_heads_hold_no_more_bytes_than_their_bound() -> None:
    world = World(CoreConfig(defaults={"rate": inf}, projects={"news": {}}, head_bytes=100_000))

    world.push("news", *[task(name, body="x" * 9000) for name in names(200)])
    assert world.tasks_in_memory() <= 11
    world.restart()
    assert 0 < world.tasks_in_memory() <= 11
    fetcher = world.fetcher(capacity=1)
    fetcher.finish_all()
    assert fetcher.taken == names(200)


def test_bodies_larger_than_the_bound_are_held_one_at_a_time() -> None:
    world = World(CoreConfig(defaults={"rate": inf}, projects={"news": {}}, head_bytes=1000))

    world.push("news", *[task(name, body="x" * 9000) for name in names(9)])
    assert world.tasks_in_memory() <= 1
    fetcher = world.fetcher(capacity=1)
    fetcher.finish_all()
    assert fetcher.taken == names(9)


def test_the_heads_of_many_projects_are_read_over_several_turns() -> None:
    projects: dict[str, Layer] = {f"p{i}": {} for i in range(100)}
    world = World(CoreConfig(defaults={"rate": inf}, projects=projects))
    for name in projects:
        world.push(name, task(name))

    world.restart()
    assert sorted(world.fetcher().taken) == sorted(projects)
