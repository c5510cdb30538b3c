"""slot.delay = "auto": the delay of a slot follows the latency of its host."""

from __future__ import annotations

from typing import Any

import pytest

from taskqueue.protocol.values import Fetched
from taskqueue.store.records import layout
from taskqueue.store.records.slots import decode_slot
from tests.unit.core.conftest import Fetcher, MakeWorld, World, laid_over, task

OK = 200


def follow(make_world: MakeWorld, **settings: Any) -> tuple[World, Fetcher]:
    """Make a world with tasks of one host, whose delay is from 1 to 60 seconds, and a fetcher with the first one."""
    slot = {"by": "host", "delay": "auto", "min_delay": 1.0, "max_delay": 60.0}
    world = make_world(laid_over({"slot": slot}, settings))
    world.push("news", *[task(f"t{number:03}", url=f"http://a.org/{number}") for number in range(60)])
    return world, world.fetcher(capacity=1)


def distance(world: World, fetcher: Fetcher, seconds: float, status: int | None = OK, **report: Any) -> float:
    """Report the fetcher's task after ``seconds``; return the seconds from its dispatch to the next one."""
    begun, taken = world.elapsed, len(fetcher.taken)
    world.advance(seconds)
    fetcher.done(fetcher.taken[-1], fetched=Fetched(status_code=status, seconds=seconds), **report)
    while len(fetcher.taken) == taken:
        fetcher.hello()
        world.advance(max(0.001, world.next_wake() - world.elapsed))
    return world.elapsed - begun


def test_the_delay_goes_half_way_to_the_latency_and_at_once_if_that_is_longer(make_world: MakeWorld) -> None:
    world, fetcher = follow(make_world)

    waits = [distance(world, fetcher, seconds) for seconds in (0.1, 8.0, 2.0, 2.0, 2.0)]
    # The task that came at once, after 8 s, was the next one after a delay of 8 s.
    assert waits == pytest.approx([1.0, 8.0, 8.0, 5.0, 3.5], abs=1e-2)


@pytest.mark.parametrize(("status", "ok"), [(404, True), (404, False), (304, True), (None, False)])
def test_only_a_proper_answer_makes_it_shorter(make_world: MakeWorld, status: int | None, ok: bool) -> None:
    world, fetcher = follow(make_world, fail_pause_num=0)

    distance(world, fetcher, 8.0)
    assert distance(world, fetcher, 0.5, status, ok=ok) == pytest.approx(8.0, abs=1e-2)
    assert distance(world, fetcher, 0.5) == pytest.approx(8.0, abs=1e-2)
    assert distance(world, fetcher, 0.5) == pytest.approx(4.25, abs=1e-2)


def test_what_is_no_proper_answer_may_make_it_longer(make_world: MakeWorld) -> None:
    world, fetcher = follow(make_world)

    distance(world, fetcher, 8.0, 404)
    assert distance(world, fetcher, 0.5) == pytest.approx(8.0, abs=1e-2)


def test_a_success_without_a_status_is_a_proper_answer(make_world: MakeWorld) -> None:
    world, fetcher = follow(make_world)

    distance(world, fetcher, 8.0, None)
    distance(world, fetcher, 1.0, None)
    assert distance(world, fetcher, 1.0, None) == pytest.approx(4.5, abs=1e-2)


def test_it_stays_within_its_bounds(make_world: MakeWorld) -> None:
    world, fetcher = follow(make_world, slot={"min_delay": 3.0, "max_delay": 10.0})

    waits = [distance(world, fetcher, seconds) for seconds in (1.0, 1.0, 30.0, 1.0)]
    assert waits == pytest.approx([3.0, 3.0, 30.0, 10.0], abs=1e-2)


@pytest.mark.parametrize("again", ["restart", "reboot"])
def test_it_is_kept_across_restarts(make_world: MakeWorld, again: str) -> None:
    world, fetcher = follow(make_world)
    distance(world, fetcher, 40.0)
    world.restart() if again == "restart" else world.reboot()
    begun = world.elapsed
    world.turn(fetcher.answers(fetcher.finished(fetcher.taken[-1])))

    while not fetcher.held:
        fetcher.hello()
        world.advance(1.0)
    assert world.elapsed - begun == pytest.approx(40.0, abs=1.1)


def test_it_is_written_when_it_has_changed_by_a_fifth_and_when_its_slot_leaves_memory(make_world: MakeWorld) -> None:
    world, fetcher = follow(make_world)
    written = 0

    for seconds in (10.0, *[9.0] * 50, 8.9):
        world.advance(seconds)
        world.turn(fetcher.answers(fetcher.finished(fetcher.taken[-1], fetched=Fetched(OK, seconds))))
        written += sum(len(each.records) for each in world.kept.slots)
        fetcher.hello()
        world.advance(20.0)
    assert written == 1
    for _ in range(10):
        fetcher.finish_all()
        world.advance(20.0)
        fetcher.hello()
    assert not fetcher.held
    (kept,) = [
        record
        for value in world.disk.families[layout.SLOTS].values.values()
        if (record := decode_slot(value)).name == "a.org"
    ]
    assert kept.auto_delay == pytest.approx(8.95, abs=0.06)
