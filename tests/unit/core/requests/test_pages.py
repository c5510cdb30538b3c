"""Pages of projects and fetchers, in the order of the request."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.choices import FetcherSort, ProjectSort
from taskqueue.protocol.daemon import StatusReply, StatusShow
from taskqueue.protocol.fetchers import Fetchers, FetchersReply
from tests.unit.core.conftest import MakeWorld, World, task


def status(world: World, **wish: Any) -> StatusReply:
    return world.ask(StatusReply, StatusShow(session="person", n=world.n(), **wish))


def names(world: World, **wish: Any) -> list[str]:
    return [view.name for view in status(world, **wish).projects]


def fetchers(world: World, **wish: Any) -> FetchersReply:
    return world.ask(FetchersReply, Fetchers(session="person", n=world.n(), **wish))


def sessions(world: World, **wish: Any) -> list[str]:
    known = {world.pseudonym(session): session for session in "abc"}
    return [known[view.session] for view in fetchers(world, **wish).fetchers]


@pytest.fixture
def shops(make_world: MakeWorld) -> World:
    """Make projects a to e with 0 to 4 tasks; those of e are selected, and one has failed."""
    world = make_world(projects={name: {"group": "odd" if name in "ac" else ""} for name in "abcde"})
    for count, name in enumerate("abcde"):
        world.push(name, *(task(f"{name}{n}") for n in range(count)))
    fetcher = world.fetcher(capacity=4, projects=["e"])
    fetcher.fail("e0")
    fetcher.capacity = 0
    fetcher.hello()
    return world


# ---------------------------------------------------------------------------------------- projects


def test_projects_come_by_what_there_is_most_of_and_equals_by_name(shops: World) -> None:
    assert names(shops, sort="ready") == ["d", "c", "b", "a", "e"]
    assert names(shops, sort="processing") == ["e", "a", "b", "c", "d"]
    assert names(shops, sort="delayed")[0] == "e"
    assert names(shops, sort="new_5m") == ["e", "d", "c", "b", "a"]
    assert names(shops, sort="selected_5m") == ["e", "a", "b", "c", "d"]
    assert names(shops, sort="retried_5m")[0] == "e"
    assert status(shops, sort="new_5m", limit=2, skip=1).numbers == [3, 2]
    assert status(shops, sort="ready", limit=2).numbers == [3, 2]
    assert status(shops).numbers == []


@pytest.mark.parametrize("sort", get_args(ProjectSort))
def test_whatever_the_order_each_project_is_on_one_page(shops: World, sort: str) -> None:
    pages = [names(shops, sort=sort, skip=skip, limit=2) for skip in (0, 2, 4)]

    assert sorted(name for page in pages for name in page) == list("abcde")
    assert [status(shops, sort=sort, skip=skip, limit=2).more for skip in (0, 2, 4, 6)] == [True, True, False, False]


def test_events_that_are_long_ago_make_no_project_come_first(shops: World) -> None:
    shops.advance(100)
    shops.restart()
    assert names(shops, sort="new_5m") == ["e", "d", "c", "b", "a"]

    shops.advance(400)
    shops.push("b", task("late"))
    assert names(shops, sort="new_5m") == ["b", "a", "c", "d", "e"]


def test_a_filter_is_a_part_of_a_name_whatever_its_case(make_world: MakeWorld) -> None:
    world = make_world(projects={name: {"group": "g"} for name in ("News.de", "old-news", "shop")})

    reply = status(world, filter="nEWS", limit=1)
    assert ([view.name for view in reply.projects], reply.more, reply.found) == (["News.de"], True, 2)
    assert names(world, filter="news", after="News.de") == ["old-news"]
    assert names(world, filter="o", group="g", sort="ready") == ["old-news", "shop"]
    assert status(world, filter="*").found == 0
    assert status(world).found == 3


def test_a_status_has_as_many_fetchers_as_it_is_asked_for(world: World) -> None:
    for name in "abc":
        world.fetcher(name=name)

    assert len(status(world).fetchers) == 3
    assert len(status(world, fetchers=2).fetchers) == 2
    assert status(world, fetchers=0).fetchers == []


# ---------------------------------------------------------------------------------------- fetchers


@pytest.fixture
def crew(world: World) -> World:
    """Make fetchers: a has two tasks, b has one for longest and has failed, c has been silent for longest."""
    world.push("news", task("old"))
    third = world.fetcher(capacity=5, projects=["shop"], name="c")
    third.hello(name="zoo:1")
    world.advance(1)
    world.fetcher(capacity=1, projects=["news"], name="b").hello(name="ant:2")
    world.advance(5)
    world.push("news", task("p"), task("q"))
    world.fetcher(capacity=3, name="a").hello(name="bee:3")
    world.push("shop", task("s"))
    return world


def test_fetchers_come_in_the_order_that_is_asked_for(crew: World) -> None:
    assert sessions(crew) == sorted("abc", key=crew.pseudonym)
    assert sessions(crew, sort="name") == ["b", "a", "c"]
    assert sessions(crew, sort="capacity") == ["c", "a", "b"]
    assert sessions(crew, sort="holds") == ["a", *sorted("bc", key=crew.pseudonym)]
    assert sessions(crew, sort="oldest")[0] == "b"
    assert sessions(crew, sort="silent") == ["c", "b", "a"]


@pytest.mark.parametrize("sort", get_args(FetcherSort))
def test_whatever_the_order_each_fetcher_is_on_one_page(crew: World, sort: str) -> None:
    first, second = (sessions(crew, sort=sort, skip=skip, limit=2) for skip in (0, 2))

    assert sorted(first + second) == ["a", "b", "c"]
    assert [fetchers(crew, sort=sort, skip=skip, limit=2).more for skip in (0, 2)] == [True, False]


def test_pages_of_fetchers_go_on_after_a_pseudonym(crew: World) -> None:
    first, second, third = sorted("abc", key=crew.pseudonym)

    assert sessions(crew, limit=2) == [first, second]
    assert sessions(crew, limit=2, after=crew.pseudonym(second)) == [third]


def test_a_page_tells_what_all_fetchers_have_in_sum(crew: World) -> None:
    reply = fetchers(crew, limit=1)

    assert (reply.found, reply.capacity, reply.holds) == (3, 9, 4)


def test_fetchers_are_found_by_project_group_and_name(crew: World) -> None:
    assert sorted(sessions(crew, project="news")) == ["a", "b"]
    assert sessions(crew, filter="ZOO") == ["c"]
    assert sessions(crew, group="none") == ["a"]
    crew.set("shop", group="shops")
    assert sorted(sessions(crew, group="shops")) == ["a", "c"]


def test_a_project_that_is_unknown_is_no_project_without_fetchers(world: World) -> None:
    reply = world.ask(ErrorReply, Fetchers(session="person", n=world.n(), project="other"))

    assert reply.code == "unknown-project"


def test_nobody_who_only_asks_or_pushes_is_a_fetcher(world: World) -> None:
    world.push("news", task("a"))

    assert fetchers(world).fetchers == []


def test_a_page_may_be_of_the_projects_that_are_named(shops: World) -> None:
    assert names(shops, projects=["e", "b", "e"]) == ["b", "e"]
    assert names(shops, projects=["b", "c"], group="odd") == ["c"]
    assert names(shops, projects=["b", "c", "d"], sort="ready", limit=2) == ["d", "c"]
    assert status(shops, projects=["b", "c", "d"], limit=1).found == 3
    assert shops.ask(ErrorReply, StatusShow(session="x", n=shops.n(), projects=["other"])).code == "unknown-project"


def test_a_page_may_be_of_the_fetchers_of_the_projects_that_are_named(make_world: MakeWorld) -> None:
    world = make_world(projects={"blog": {}, "news": {}, "shop": {}})
    for session, wanted in (("a", ["blog"]), ("b", ["news", "blog"]), ("c", ["shop"])):
        world.fetcher(projects=wanted, name=session)

    assert sorted(sessions(world, projects=["shop", "news"])) == ["b", "c"]
    assert world.ask(ErrorReply, Fetchers(session="x", n=world.n(), projects=["other"])).code == "unknown-project"
