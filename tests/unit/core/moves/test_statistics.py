"""Error bursts: one event when many attempts fail, and the next one only after a recovery."""

from __future__ import annotations

from math import inf

from taskqueue.protocol.tasks import DoneReply
from tests.unit.core.conftest import Fetcher, MakeWorld, World, task
from tests.unit.core.rules.conftest import run_out

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


def test_failures_of_one_turn_after_a_quiet_time_are_a_burst_of_their_own(make_world: MakeWorld) -> None:
    world, fetcher = burst_of(make_world, LIMIT)
    world.push("news", *[task(f"long{index}") for index in range(LIMIT)])
    fail(world, fetcher, LIMIT)
    assert bursts(world) == 1

    run_out(world, fetcher, 400)
    reports = [fetcher.finished(taskid, ok=False) for taskid in list(fetcher.held)]
    assert world.ask(DoneReply, fetcher.answers(*reports)).outcomes == ["done"] * LIMIT

    assert bursts(world) == 2


def test_timeouts_and_attempts_that_are_put_off_count_as_failed(make_world: MakeWorld) -> None:
    world, fetcher = burst_of(make_world, 3)
    world.push("news", task("a", timeout=5), task("b"), task("c"))
    fetcher.fail("b", retry_after=60)
    fetcher.fail("c", retry=False)
    assert bursts(world) == 0

    world.advance(5)

    assert bursts(world) == 1


def test_a_burst_that_lasts_is_told_again_after_a_restart(make_world: MakeWorld) -> None:
    world, fetcher = burst_of(make_world, LIMIT)
    fail(world, fetcher, LIMIT)
    world.advance(60)
    world.restart()
    fetcher.hello()
    assert bursts(world) == 1

    fail(world, fetcher, 1)

    assert bursts(world) == 2


def test_where_no_number_is_a_burst_none_is_told(make_world: MakeWorld) -> None:
    world, fetcher = burst_of(make_world, inf)

    fail(world, fetcher, 20)

    assert bursts(world) == 0
