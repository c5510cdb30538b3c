"""Connections: none has more than half of all leases, however many sessions it uses."""

from __future__ import annotations

from math import inf

import pytest

from taskqueue.protocol.insight import Why, WhyReply
from tests.unit.core.conftest import Fetcher, MakeWorld, World, task

MOST = 10
HALF = 5


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    it = make_world({"rate": inf}, max_leases=MOST)
    it.push("news", *(task(f"n{number:02}") for number in range(30)))
    return it


def crowd(world: World, count: int, connection: str = "one", capacity: int = 3) -> list[Fetcher]:
    """Make fetchers that share a connection and have sent a hello."""
    names = [f"{connection}-{number}" for number in range(count)]
    world.connections |= dict.fromkeys(names, connection)
    return [world.fetcher(capacity, name=name) for name in names]


def held(fetchers: list[Fetcher]) -> int:
    return sum(len(fetcher.held) for fetcher in fetchers)


def test_a_connection_holds_at_most_half_of_all_leases_whatever_number_of_sessions_it_uses(world: World) -> None:
    crowded = crowd(world, 6)
    assert held(crowded) == HALF

    polite = world.fetcher(capacity=HALF, name="polite")
    assert len(polite.held) == HALF


def test_one_session_alone_holds_no_more_either(world: World) -> None:
    greedy = world.fetcher(capacity=1000)
    assert len(greedy.held) == HALF
    assert world.next_wake() > world.elapsed


def test_when_one_of_its_leases_has_ended_another_of_its_sessions_is_served(world: World) -> None:
    first, second, third = crowd(world, 3)
    assert [len(each.held) for each in (first, second, third)] == [3, 2, 0]

    first.hello(capacity=0)
    first.done("n00")
    assert len(third.held) + len(second.held) == 3
    first.finish_all()
    assert held([first, second, third]) == HALF


def test_sessions_with_other_wishes_are_called_too_when_there_is_room(world: World) -> None:
    greedy = crowd(world, 2)
    world.connections |= {"a": "one", "b": "one"}
    world.push("shop", task("s"))
    idle = world.fetcher(capacity=3, projects=["none"], name="a")
    wanting = world.fetcher(capacity=3, projects=["shop"], name="b")
    assert held([*greedy, idle, wanting]) == HALF

    for fetcher in greedy:
        fetcher.hello(capacity=0)
        fetcher.finish_all()
    assert list(wanting.held) == ["s"]
    assert not idle.held


def test_a_session_that_moves_to_another_connection_takes_its_leases_along(world: World) -> None:
    mover, *others = crowd(world, 3)
    assert len(mover.held) == 3

    world.connections[mover.session] = "two"
    mover.hello()
    assert held(others) == HALF
    newcomers = crowd(world, 2, "two")
    assert len(mover.held) + held(newcomers) == MOST - HALF


def test_a_session_that_was_set_aside_is_served_where_it_is_heard_next(world: World) -> None:
    *_, last = crowd(world, 3)
    assert not last.held

    world.connections[last.session] = "two"
    last.hello()
    assert len(last.held) == 3


def test_after_a_restart_a_connection_has_what_its_sessions_held(world: World) -> None:
    crowded = crowd(world, 3)
    world.restart()
    for fetcher in crowded:
        fetcher.hello()
    assert held(crowded) == HALF


def test_why_says_that_the_connection_holds_its_part(world: World) -> None:
    crowd(world, 1, capacity=8)
    reply = world.ask(WhyReply, Why(session="person", n=world.n(), project="news"))
    assert "half of limits.max_leases" in reply.sentence


def test_where_one_lease_is_allowed_in_all_somebody_gets_it(make_world: MakeWorld) -> None:
    it = make_world({}, max_leases=1)
    it.push("news", task("a"))
    assert list(it.fetcher(capacity=2).held) == ["a"]
