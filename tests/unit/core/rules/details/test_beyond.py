"""Tasks of fetchers beyond their capacity are counted apart, so the counts of used and free places stay true."""

from __future__ import annotations

from taskqueue.protocol.daemon import DaemonReply, DaemonShow
from taskqueue.protocol.fetchers import FetcherReply, Fetchers, FetcherShow, FetchersReply
from taskqueue.protocol.insight import Why, WhyReply
from tests.unit.core.conftest import Fetcher, World, task


def holding(world: World, count: int, capacity: int, name: str = "web1") -> Fetcher:
    """Make a fetcher with ``count`` tasks that has lowered its capacity to ``capacity`` since."""
    world.push("news", *(task(f"{name}-{number}") for number in range(count)))
    fetcher = world.fetcher(capacity=count, name=name)
    fetcher.hello(capacity=capacity)
    return fetcher


def told(world: World) -> tuple[int, int, int]:
    """Return capacity, tasks, and tasks beyond the capacity of all fetchers, equal in all replies."""
    found = world.ask(FetchersReply, Fetchers(session="person", n=world.n()))
    daemon = world.ask(DaemonReply, DaemonShow(session="person", n=world.n()))
    names = dict.fromkeys(view.name for view in found.fetchers)
    shown = [world.ask(FetcherReply, FetcherShow(session="person", n=world.n(), fetcher=name)) for name in names]
    assert (daemon.capacity, daemon.holds, daemon.beyond) == (found.capacity, found.holds, found.beyond)
    assert sum(each.beyond for each in shown) == found.beyond
    assert found.holds - found.beyond + sum(view.free for view in found.fetchers) == found.capacity
    return found.capacity, found.holds, found.beyond


def test_a_fetcher_that_has_lowered_its_capacity_holds_some_beyond_it(world: World) -> None:
    holding(world, 4, 3)

    assert told(world) == (3, 4, 1)


def test_what_one_that_stops_holds_takes_none_of_the_places_of_others(world: World) -> None:
    holding(world, 3, 0)
    holding(world, 1, 5, name="web2")

    assert told(world) == (5, 4, 3)


def test_what_a_fetcher_has_passed_on_takes_none_of_its_places(world: World) -> None:
    fetcher = holding(world, 4, 4)
    fetcher.hello(passed=fetcher.tokens("web1-0", "web1-1"))

    assert told(world) == (4, 4, 2)


def test_why_tells_of_no_more_places_than_there_are(world: World) -> None:
    holding(world, 3, 2)
    world.push("news", task("waits"))

    sentence = world.ask(WhyReply, Why(session="person", n=world.n(), project="news")).sentence

    assert sentence.endswith("are full (2 of 2 places)")
