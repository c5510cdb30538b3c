"""Tasks of slots that did not arrive, because the fetcher lost its connection or the daemon died."""

from __future__ import annotations

from math import inf
from typing import Any

from taskqueue.settings.settings import CoreConfig
from tests.unit.core.conftest import World, task


def world(slots: float = 1.0) -> World:
    """Make a world with the project ``news``, divided by hosts, with half a second between tasks."""
    defaults: dict[str, Any] = {"rate": inf, "slot": {"by": "host", "delay": 0.5, "max_processing": slots}}
    return World(CoreConfig(defaults=defaults, projects={"news": {}}))


def push(it: World, count: int) -> None:
    it.push("news", *[task(str(n), url=f"http://a.example/{n}") for n in range(count)])


def test_what_is_sent_again_after_a_restart_is_to_be_started_in_time_too() -> None:
    it = world()
    fetcher = it.fetcher()
    fetcher.deaf = True
    push(it, 1)
    fetcher.deaf = False

    it.restart()
    fetcher.hello()

    assert fetcher.held["0"].start_within == 1.0


def test_a_slot_counts_from_when_a_task_of_it_was_sent_again() -> None:
    it = world(slots=2.0)
    fetcher = it.fetcher()
    fetcher.deaf = True
    push(it, 1)
    fetcher.deaf = False
    it.advance(10)

    fetcher.hello()
    push(it, 2)

    assert fetcher.held["0"].not_before == 0.0
    assert fetcher.held["1"].not_before == 0.5


def test_the_rest_of_its_wait_is_kept() -> None:
    it = world(slots=3.0)
    fetcher = it.fetcher()
    fetcher.deaf = True
    push(it, 3)
    fetcher.deaf = False
    it.advance(0.25)

    fetcher.hello()

    given = [fetcher.held[each] for each in ("0", "1", "2")]
    assert all(each.slot for each in given)
    assert [each.not_before for each in given] == [0.0, 0.25, 0.75]
    assert [each.timeout for each in given] == [599.75, 600.0, 600.0]
