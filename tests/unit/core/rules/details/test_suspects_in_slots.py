"""Suspects of a crash in divided projects: they stand aside while other tasks have their turn."""

from __future__ import annotations

from tests.unit.core.conftest import MakeWorld, task


def test_a_slot_whose_only_task_stands_aside_stays_in_memory(make_world: MakeWorld) -> None:
    world = make_world({"slot": {"by": "host", "delay": 0.0}})
    world.push("news", task("a", url="http://a.org/"), task("b", url="http://b.org/"))
    world.fetcher(capacity=2)
    world.advance(61)  # it has fallen silent
    fetcher = world.fetcher(capacity=4, name="other")
    world.push("news", task("c", url="http://c.org/"))
    before = world.wakes

    world.advance(10)
    assert fetcher.taken == ["a", "c"]
    assert world.wakes - before < 10
    fetcher.finish_all()
    assert fetcher.taken == ["a", "c", "b"]
