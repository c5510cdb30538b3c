"""State of slots after a project is divided otherwise."""

from __future__ import annotations

from math import inf

from taskqueue.settings.settings import CoreConfig
from tests.unit.core.conftest import World, task


def test_what_was_cleared_before_a_project_is_divided_keeps_its_distance_to_what_comes() -> None:
    world = World(CoreConfig(defaults={"rate": inf, "slot": {"by": "domain", "delay": 10.0}}, projects={"news": {}}))
    fetcher = world.fetcher()
    world.push("news", task("1", url="http://a.example/1"))

    world.do("clear")
    world.set(slot={"by": "host"})
    world.push("news", task("2", url="http://a.example/2"))

    assert fetcher.taken == ["1"]
    world.advance(11)
    assert fetcher.taken == ["1", "2"]
