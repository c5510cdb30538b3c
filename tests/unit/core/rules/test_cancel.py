"""cancel with force_update: the task ends from any state."""

from __future__ import annotations

from typing import Any

import pytest

from taskqueue.protocol.tasks import DoneReply
from tests.unit.core.conftest import World, task
from tests.unit.core.rules.conftest import BACK_OFFS, CANCEL, FORCE, LIVE, bring, bring_back_off, never_comes, rest


@pytest.mark.parametrize("state", [*LIVE, "success", "failed"])
def test_a_cancelled_task_is_never_run(world: World, state: str) -> None:
    fetcher = bring(world, state)

    assert world.push("news", task("a", **CANCEL)) == ["cancelled"]
    assert world.show("a").state == "cancelled"
    fetcher.held.clear()
    assert never_comes(world, fetcher)


@pytest.mark.parametrize("why", BACK_OFFS)
def test_a_task_in_a_back_off_can_be_cancelled(world: World, why: str) -> None:
    fetcher = bring_back_off(world, why, 500)

    assert world.push("news", task("a", **CANCEL)) == ["cancelled"]
    assert never_comes(world, fetcher)


def test_the_answer_for_a_task_that_was_cancelled_meanwhile_is_stale(world: World) -> None:
    fetcher = bring(world, "processing")
    world.push("news", task("a", **CANCEL))

    assert fetcher.done("a") == "stale"
    assert world.show("a").state == "cancelled"


def test_follow_ups_of_a_task_that_was_cancelled_meanwhile_are_not_taken(world: World) -> None:
    fetcher = bring(world, "processing")
    world.push("news", task("a", **CANCEL))

    reply = world.ask(DoneReply, fetcher.answers(fetcher.finished("a", new=[task("b")])))
    assert reply.outcomes == ["stale"]
    assert never_comes(world, fetcher)


def test_a_cancelled_lease_takes_room_until_its_fetcher_says_that_nobody_works_on_it(world: World) -> None:
    fetcher = bring(world, "processing")
    fetcher.hello()
    world.push("news", task("b"))
    assert fetcher.taken == ["a"]

    world.push("news", task("a", **CANCEL))
    fetcher.hello()
    assert fetcher.taken == ["a"]
    fetcher.hello()
    assert fetcher.taken == ["a", "b"]


def test_a_cancel_drops_what_was_deferred(world: World) -> None:
    fetcher = bring(world, "processing")
    world.push("news", task("a", **FORCE))

    assert world.push("news", task("a", **CANCEL)) == ["cancelled"]
    fetcher.done("a")
    rest(fetcher)
    assert never_comes(world, fetcher)


def test_cancelling_twice_is_ignored(world: World) -> None:
    bring(world, "cancelled")

    assert world.push("news", task("a", **CANCEL)) == ["ignored"]


@pytest.mark.parametrize("state", [*LIVE, "success", "failed"])
def test_cancel_without_force_update_is_ignored(world: World, state: str) -> None:
    bring(world, state)

    assert world.push("news", task("a", cancel=True, priority=9)) == ["ignored"]
    shown = world.show("a")
    assert (shown.state, shown.priority) == (state, 0)


@pytest.mark.parametrize("schedule", [FORCE, {"itag": "v2"}, {"age": 1.0}])
def test_a_cancelled_task_can_be_restarted_but_not_by_a_link(world: World, schedule: dict[str, Any]) -> None:
    fetcher = bring(world, "cancelled")

    assert world.push("news", task("a"), task("a", **schedule)) == ["ignored", "restarted"]
    fetcher.hello()
    assert fetcher.taken == ["a"]


def test_a_cancel_outlives_the_daemon(world: World) -> None:
    fetcher = bring(world, "processing")
    world.push("news", task("a", **CANCEL))

    world.restart()
    rest(fetcher)
    assert fetcher.done("a") == "stale"
    assert never_comes(world, fetcher)
