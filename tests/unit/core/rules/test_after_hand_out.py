"""Welcome after the dispatch of ready tasks, on request, so that a fetcher knows that there are no more."""

from __future__ import annotations

from typing import Any

import pytest

from taskqueue.core.model.pending_work import REFILLS_A_TURN
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.fetchers import Hello, Select, Welcome
from tests.unit.core.conftest import Fetcher, MakeWorld, World, task


def asking(world: World, capacity: int, projects: list[str] | None = None, n: int = 1) -> Hello:
    """Make a hello that asks for its welcome after the dispatch of ready tasks."""
    return Hello(session="f", n=n, capacity=capacity, projects=projects, after_hand_out=True)


def told_after(world: World, hello: Hello) -> tuple[int, int]:
    """Say hello; return how many tasks came before the welcome, and after how many turns it came."""
    fetcher = world.know(Fetcher(world, "f", hello.capacity, hello.projects))
    replies = world.turn(hello)
    for turns in range(1, 100):
        if any(isinstance(reply, Welcome) for reply in replies):
            return len(fetcher.taken), turns
        assert world.next_wake() <= world.elapsed, "it sleeps, and has not answered"
        replies = world.turn()
    raise AssertionError("no answer")


def push(world: World, count: int, project: str = "news", **schedule: Any) -> None:
    world.push(project, *(task(f"{project}-{number}", **schedule) for number in range(count)))


def test_the_welcome_comes_behind_the_tasks_that_are_ready(make_world: MakeWorld) -> None:
    world = make_world()
    push(world, 20)
    world.settle()

    assert told_after(world, asking(world, 100))[0] == 20


def test_the_welcome_comes_behind_the_tasks_also_in_what_one_turn_says(world: World) -> None:
    push(world, 2)

    world.turn(asking(world, 5))

    assert [type(said.message) for said in world.said] == [Select, Welcome]


def test_who_has_no_room_left_is_answered_at_once(make_world: MakeWorld) -> None:
    world = make_world()
    push(world, 20)

    assert told_after(world, asking(world, 2)) == (2, 1)


def test_where_nothing_is_ready_it_is_answered_at_once(world: World) -> None:
    assert told_after(world, asking(world, 5)) == (0, 1)


@pytest.mark.parametrize("settings", [{"rate": 1.0, "burst": 2.0}, {"max_processing": 2}])
def test_it_waits_for_no_rate(make_world: MakeWorld, settings: dict[str, float]) -> None:
    world = make_world(settings)
    push(world, 20)

    taken, turns = told_after(world, asking(world, 100))

    assert taken == 2
    assert turns <= 3


def test_it_waits_for_no_delay(make_world: MakeWorld) -> None:
    world = make_world()
    push(world, 20, delay=5)
    push(world, 1, "shop")
    world.settle()

    assert told_after(world, asking(world, 100)) == (1, 1)


def test_tasks_are_read_from_the_store_first_where_none_is_in_memory(make_world: MakeWorld) -> None:
    names = [f"p{number:02}" for number in range(3 * REFILLS_A_TURN)]
    world = make_world(projects={name: {} for name in names})
    for name in names:
        push(world, 1, name)
    world.crash()

    assert told_after(world, asking(world, 1000))[0] == len(names)


def test_the_last_project_is_read_first_also_if_nothing_comes_before(make_world: MakeWorld) -> None:
    names = [f"p{number:02}" for number in range(6 * REFILLS_A_TURN)]
    world = make_world(projects={name: {} for name in names})
    for name in names:
        push(world, 1, name)
    world.crash()

    assert told_after(world, asking(world, 5, [names[-1]]))[0] == 1


def test_tasks_of_slots_are_read_from_the_store_first(make_world: MakeWorld) -> None:
    world = make_world({"slot": {"by": "host", "delay": 0.001}})
    world.push("news", *(task(f"t{n}", url=f"http://site{n}.example/") for n in range(10)))
    world.crash()
    world.elapsed += 1  # so that no slot waits for its pace

    assert told_after(world, asking(world, 100))[0] == 10


def test_large_bodies_are_read_from_the_store_first(make_world: MakeWorld) -> None:
    world = make_world(queue_bytes=100_000)
    world.push("news", *(task(f"t{n}", body=b"x" * 60_000) for n in range(5)))
    world.settle()

    assert told_after(world, asking(world, 100))[0] == 5


def test_the_body_of_a_single_large_task_is_read_from_the_store_first(make_world: MakeWorld) -> None:
    world = make_world(queue_bytes=100_000)
    world.push("news", task("t", body=b"x" * 200_000))
    world.settle()

    assert told_after(world, asking(world, 100)) == (1, 2)


def test_it_waits_for_no_work_of_others_that_never_ends(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=1)
    push(world, 50)
    world.turn(Hello(session="other", n=1, capacity=100, projects=["news"]))

    assert told_after(world, asking(world, 5, ["shop"])) == (0, 3)
    assert world.counts().ready > 40


def test_a_later_hello_takes_the_place_of_one_that_waits(make_world: MakeWorld) -> None:
    names = [f"p{number:02}" for number in range(3 * REFILLS_A_TURN)]
    world = make_world(projects={name: {} for name in names})
    for name in names:
        push(world, 1, name)
    world.crash()

    first = world.turn(asking(world, 100))
    assert not any(isinstance(reply, Welcome) for reply in first)
    told_after(world, asking(world, 100, n=2))
    world.settle()

    assert [reply.n for reply in world.inbox if isinstance(reply, Welcome)] == [2]


def test_a_hello_that_is_refused_is_refused_at_once(world: World) -> None:
    world.turn(asking(world, 1, n=5))

    [refusal] = world.turn(asking(world, 1, n=4))

    assert isinstance(refusal, ErrorReply)
    assert refusal.code == "too-old"
