"""Error bursts: one event when many attempts fail, and the next one only after a recovery."""

from __future__ import annotations

from math import inf

from tests.unit.core.conftest import Fetcher, MakeWorld, World, task

LIMIT = 4


def burst_of(make_world: MakeWorld, limit: float) -> tuple[World, Fetcher]:
    """Make a world whose projects never pause automatically, and a fetcher."""
    world = make_world({"error_burst": limit, "fail_pause_num": 0, "retries": 0})
    return world, world.fetcher()


def fail(world: World, fetcher: Fetcher, count: int) -> None:
    for _ in range(count):
        taskid = f"t{world.n()}"
        world.push("news", task(taskid))
        fetcher.fail(taskid)


def bursts(world: World) -> int:
    """Return the number of events of bursts."""
    return world.event_kinds().count("error-burst")


def test_a_burst_is_told_once(make_world: MakeWorld) -> None:
    world, fetcher = burst_of(make_world, LIMIT)

    fail(world, fetcher, LIMIT - 1)
    assert bursts(world) == 0

    fail(world, fetcher, 2 * LIMIT)
    assert bursts(world) == 1


def test_it_is_told_again_after_fewer_than_half_as_many_had_failed(make_world: MakeWorld) -> None:
    world, fetcher = burst_of(make_world, LIMIT)
    fail(world, fetcher, LIMIT)

    world.advance(400)
    fetcher.hello()
    fail(world, fetcher, 1)
    fail(world, fetcher, LIMIT - 1)

    assert bursts(world) == 2


def test_where_no_number_is_a_burst_none_is_told(make_world: MakeWorld) -> None:
    world, fetcher = burst_of(make_world, inf)

    fail(world, fetcher, 20)

    assert bursts(world) == 0
