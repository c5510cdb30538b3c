"""Wishes: the projects that fetchers want tasks of, and the bound of their names."""

from __future__ import annotations

from taskqueue.protocol.base import AnyReply, ErrorReply
from taskqueue.protocol.fetchers import Hello, Welcome
from taskqueue.protocol.fields import MAX_WISHES
from tests.unit.core.conftest import World, task

NAMES_MOST = 100_000
"""Bound of these tests: with one that a planted bug makes infinite, the test would fill the machine's memory."""


def names(number: int) -> list[str]:
    """Return as many names as a fetcher may send, none of which is in another set."""
    return [f"p{number}-{each}" for each in range(MAX_WISHES)]


def state(world: World, session: str, projects: list[str] | None, capacity: int = 1) -> AnyReply:
    return world.answer(Hello(session=session, n=world.n(), capacity=capacity, projects=projects))


def fill(world: World) -> None:
    """Have fetchers name as many projects as all of them may together."""
    sets = range(NAMES_MOST // MAX_WISHES)
    hellos = [Hello(session=f"f{number}", n=world.n(), capacity=1, projects=names(number)) for number in sets]
    assert all(isinstance(reply, Welcome) for reply in world.turn(*hellos))


def test_beyond_the_names_that_all_fetchers_may_name_a_hello_is_refused_and_says_what_helps(world: World) -> None:
    fill(world)

    refused = state(world, "late", ["news"])
    assert isinstance(refused, ErrorReply)
    assert refused.code == "full"
    assert "name fewer, or none" in refused.reason
    assert isinstance(state(world, "late", None), Welcome)


def test_wishes_that_somebody_has_stated_already_cost_nothing(world: World) -> None:
    fill(world)

    for number in range(50):
        assert isinstance(state(world, f"other{number}", names(7)), Welcome)
    assert world.scheduler._state.wishes.names == NAMES_MOST


def test_a_fetcher_whose_new_wishes_are_refused_goes_on_with_its_former_ones(world: World) -> None:
    world.push("news", task("a"), task("b", project="shop"))
    fill(world)
    state(world, "f0", names(0), capacity=0)
    fetcher = world.fetcher(capacity=1, projects=["news"], name="f0")
    state(world, "other", names(500)[1:])

    assert isinstance(state(world, "f0", ["shop", *names(501)[1:]]), ErrorReply)
    fetcher.finish_all()
    assert fetcher.taken == ["a"]
    world.push("news", task("c"))
    assert fetcher.taken == ["a", "c"]


def test_names_are_forgotten_with_the_last_fetcher_that_wants_them(world: World) -> None:
    fill(world)

    state(world, "f0", names(0), capacity=0)
    assert isinstance(state(world, "late", names(1000)), Welcome)
    state(world, "f1", ["news"])
    assert isinstance(state(world, "later", names(1001)[1:]), Welcome)
    assert isinstance(state(world, "latest", names(1002)), ErrorReply)
    world.advance(2 * world.config.fetcher_timeout)
    assert world.scheduler._state.wishes.names == 0
    assert isinstance(state(world, "latest", names(1002)), Welcome)


def test_a_fetcher_that_was_silent_is_served_by_its_wishes_again_when_it_states_them(world: World) -> None:
    fetcher = world.fetcher(capacity=5, projects=["news"])
    world.advance(2 * world.config.fetcher_timeout)
    world.push("shop", task("s"))
    world.push("news", task("a"))
    assert fetcher.taken == []

    fetcher.hello()
    assert fetcher.taken == ["a"]
