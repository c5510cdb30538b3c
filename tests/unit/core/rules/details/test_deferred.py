"""Deferred updates: their sum is bounded, at any size of each."""

from __future__ import annotations

from math import inf

import pytest

from taskqueue.core.moves.push import DEFERRED_PART
from taskqueue.protocol.tasks import NewTasksReply
from tests.unit.core.conftest import Fetcher, MakeWorld, World, body_of, task

MEMORY = 1 << 20
MOST = MEMORY // DEFERRED_PART
LARGE = "x" * (MOST // 4)


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    return make_world({"rate": inf}, queue_bytes=MEMORY)


def busy(world: World, count: int = 20) -> Fetcher:
    """Make a fetcher that processes ``count`` tasks."""
    world.push("news", *(task(f"t{number:02}", body="old") for number in range(count)))
    fetcher = world.fetcher(capacity=count)
    assert len(fetcher.held) == count
    fetcher.hello(capacity=0)
    return fetcher


def update(world: World, taskid: str, body: str = LARGE) -> str:
    (outcome,) = world.push("news", task(taskid, body=body, force_update=True))
    return outcome


def test_updates_of_running_tasks_are_taken_up_to_a_bound_and_refused_with_a_reason(world: World) -> None:
    busy(world)
    assert [update(world, f"t{number:02}") for number in range(5)] == ["deferred"] * 3 + ["rejected"] * 2

    reply = world.ask(NewTasksReply, world.new_tasks("news", task("t09", body=LARGE, force_update=True)))
    assert "push it again when it has ended" in reply.errors[0].reason
    assert update(world, "t09", "small") == "deferred"


def test_when_a_lease_with_an_update_has_ended_there_is_room_for_another(world: World) -> None:
    fetcher = busy(world)
    for number in range(3):
        update(world, f"t{number:02}")
    assert update(world, "t03") == "rejected"

    fetcher.done("t00")
    assert update(world, "t03") == "deferred"
    fetcher.finish_all()
    again = world.fetcher(capacity=4, name="again")
    assert {each.taskid: body_of(each) for each in again.held.values()}["t03"] == LARGE


def test_a_newer_update_of_one_task_takes_the_place_of_the_older(world: World) -> None:
    busy(world)
    assert [update(world, "t00") for _ in range(10)] == ["deferred"] * 10


def test_a_restart_goes_on_with_the_updates_that_are_kept(world: World) -> None:
    busy(world)
    for number in range(3):
        update(world, f"t{number:02}")

    world.restart()
    assert update(world, "t03") == "rejected"
    world.do("clear")
    world.push("news", task("n", body="old"))
    fetcher = world.fetcher(capacity=1, name="other")
    assert list(fetcher.held) == ["n"]
    assert update(world, "n") == "deferred"
