"""Hung places: handlers that run on after their leases, counted by the daemon, described by the fetcher."""

from __future__ import annotations

from typing import Any

import pytest

from taskqueue.core.model.session import HUNG_URL_CHARS
from taskqueue.protocol.daemon import DaemonReply, DaemonShow
from taskqueue.protocol.fetchers import Fetcher as FetcherView
from taskqueue.protocol.fetchers import FetcherReply, Fetchers, FetcherShow, FetchersReply, Hung, HungPlaces
from taskqueue.protocol.insight import Why, WhyReply
from tests.unit.core.conftest import Fetcher, MakeWorld, World, task

TIMEOUT = 5.0
URL = "http://example.org/a"


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    return make_world({"processing_timeout": TIMEOUT})


def busy(world: World, *names: str, capacity: int = 2) -> Fetcher:
    """Make a fetcher that runs these tasks."""
    world.push("news", *map(task, names))
    fetcher = world.fetcher(capacity=capacity)
    fetcher.working = fetcher.tokens(*names)
    fetcher.hello(running=fetcher.working)
    return fetcher


def listed(world: World, **fields: Any) -> FetchersReply:
    return world.ask(FetchersReply, Fetchers(session="person", n=world.n(), **fields))


def shown(world: World) -> FetcherView:
    (view,) = listed(world).fetchers
    return view


def places(view: FetcherView) -> tuple[int, int, int]:
    """Return free, running and hung places."""
    return view.free, view.holds, view.hung.places if view.hung is not None else 0


def said(places: int = 1, seconds: float = 540.0, url: str = URL) -> Hung:
    return Hung(places=places, seconds=seconds, project="news", taskid="a", url=url)


# ---------------------------------------------------------------------------------------- how many


def test_free_running_and_hung_places_are_the_capacity_whatever_happens(world: World) -> None:
    fetcher = busy(world, "a", "b", capacity=4)
    assert places(shown(world)) == (2, 2, 0)

    fetcher.done("b")
    assert places(shown(world)) == (3, 1, 0)
    world.do("pause")
    world.advance(TIMEOUT + 1)
    assert places(shown(world)) == (3, 0, 1)
    world.push("shop", task("s"))
    assert places(shown(world)) == (2, 1, 1)
    fetcher.hello(capacity=1, running=fetcher.working[:1])
    assert places(shown(world)) == (0, 1, 1)


def test_a_place_hangs_until_its_fetcher_reports_or_says_that_its_code_has_returned(world: World) -> None:
    fetcher = busy(world, "a", "b")
    world.do("stop")
    world.advance(TIMEOUT + 1)
    assert places(shown(world)) == (0, 0, 2)

    fetcher.forge("a", fetcher.working[0], ok=False)
    assert places(shown(world)) == (1, 0, 1)
    fetcher.hello(holds=[], running=[])
    assert places(shown(world)) == (2, 0, 0)


def test_what_a_fetcher_has_passed_on_neither_runs_nor_hangs_there(world: World) -> None:
    fetcher = busy(world, "a", capacity=1)
    fetcher.hello(passed=fetcher.working)

    world.advance(TIMEOUT - 1)
    assert (shown(world).free, shown(world).holds) == (1, 1)
    world.do("stop")
    world.advance(2)
    assert places(shown(world)) == (1, 0, 0)


def test_places_that_a_hello_states_beyond_what_it_names_as_running_take_no_task(world: World) -> None:
    fetcher = world.fetcher(capacity=3)
    fetcher.hello(hung=said(places=2))
    world.push("news", task("a"), task("b"))

    assert fetcher.taken == ["a"]
    assert places(shown(world)) == (0, 1, 2)
    assert listed(world).hung == world.ask(DaemonReply, DaemonShow(session="person", n=world.n())).hung == 2
    fetcher.hello(running=fetcher.tokens("a"))
    assert fetcher.taken == ["a", "b"]


def test_places_that_hang_without_a_token_are_told_until_their_fetcher_is_silent(world: World) -> None:
    world.fetcher(capacity=2).hello(hung=said(places=2, url="http://a/\n1"))
    world.push("news", task("a"))

    sentence = world.ask(WhyReply, Why(session="person", n=world.n(), project="news")).sentence
    assert sentence.endswith("whose lease has ended, the longest for 9 min: http://a/ 1")
    world.advance(61)
    assert listed(world).found == 0


def test_a_place_that_a_hello_names_as_running_and_states_as_hung_counts_once(world: World) -> None:
    fetcher = busy(world, "a")
    world.do("stop")
    world.advance(TIMEOUT + 1)

    fetcher.hello(holds=[], running=fetcher.working, hung=said())
    assert places(shown(world)) == (1, 0, 1)


def test_a_fetcher_that_wants_nothing_is_listed_while_places_of_it_hang_and_it_is_heard(world: World) -> None:
    fetcher = busy(world, "a")
    world.advance(TIMEOUT + 1)
    fetcher.hello(capacity=0, holds=[], running=fetcher.working)
    assert places(shown(world)) == (0, 0, 1)

    world.advance(61)
    assert listed(world).found == 0


def test_sums_tell_the_places_that_hang(world: World) -> None:
    busy(world, "a", "b")
    world.do("stop")
    world.advance(TIMEOUT + 1)

    reply = world.ask(FetcherReply, FetcherShow(session="person", n=world.n(), fetcher="fetcher"))
    daemon = world.ask(DaemonReply, DaemonShow(session="person", n=world.n()))
    assert (listed(world).hung, reply.hung, daemon.hung) == (2, 2, 2)


def test_fetchers_are_sorted_by_how_long_a_place_of_them_hangs(world: World) -> None:
    for name in ("fresh", "first", "second"):
        fetcher = world.fetcher(capacity=1, name=name)
        if name != "fresh":
            fetcher.hello(running=[world.n()])
        world.advance(1)

    assert [view.name for view in listed(world, sort="hung").fetchers] == ["first", "second", "fresh"]


# ---------------------------------------------------------------------------------------- which, and since when


def test_the_daemon_knows_by_itself_which_place_hangs_for_longest_and_since_when(world: World) -> None:
    fetcher = busy(world, "a", "b")
    world.do("stop")
    world.advance(TIMEOUT - 1)
    world.push("news", task("b", force_update=True, cancel=True))
    world.advance(9)

    assert shown(world).hung == HungPlaces(2, 9.0, "news", "b")
    fetcher.hello(holds=[], running=fetcher.tokens("a", "b"))
    assert shown(world).hung == HungPlaces(2, 9.0, "news", "b")
    fetcher.forge("b", fetcher.working[1])
    assert shown(world).hung == HungPlaces(1, 8.0, "news", "a")


def test_what_a_hello_says_of_a_hung_place_is_told_and_grows_older(world: World) -> None:
    fetcher = busy(world, "a")
    world.do("stop")
    world.advance(TIMEOUT + 1)

    fetcher.hello(holds=[], running=fetcher.working, hung=said(seconds=0.5))
    world.advance(30)
    assert shown(world).hung == HungPlaces(1, 30.5, "news", "a", URL)
    fetcher.hello(holds=[], running=fetcher.working)
    assert shown(world).hung == HungPlaces(1, 31.0, "news", "a")


def test_after_a_restart_the_fetchers_word_tells_since_when(world: World) -> None:
    fetcher = busy(world, "a")
    world.do("stop")
    world.advance(TIMEOUT + 1)
    world.restart()

    fetcher.hello(holds=[], running=fetcher.working, hung=said())
    assert shown(world).hung == HungPlaces(1, 540.0, "news", "a", URL)


def test_a_fetcher_that_alone_knows_its_task_and_says_nothing_hangs_since_it_was_heard(world: World) -> None:
    world.fetcher(capacity=1).hello(running=[7])

    world.advance(4)
    assert shown(world).hung == HungPlaces(1, 4.0)


def test_of_a_long_url_the_beginning_is_kept(world: World) -> None:
    world.fetcher(capacity=1).hello(running=[7], hung=said(url="http://a/" + "x" * 8000))

    hung = shown(world).hung
    assert hung is not None
    assert (len(hung.url), hung.url[:10]) == (HUNG_URL_CHARS, "http://a/x")


def test_a_place_of_a_lease_that_is_in_force_after_a_restart_does_not_hang_yet(world: World) -> None:
    fetcher = busy(world, "a")
    world.restart()

    fetcher.hello(running=fetcher.working, hung=said())
    assert places(shown(world)) == (1, 1, 0)
