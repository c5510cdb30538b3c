"""Event of a growing slot, once a day and slot: new tasks seem to come without end."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import md5
from math import inf
from typing import Any

from taskqueue.core.model.project import DAY_SECONDS
from taskqueue.core.model.traps import SLOTS_MOST
from taskqueue.core.moves.push import TRAP_URL_CHARS
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.projects import ProjectSet
from taskqueue.protocol.values import NewTask
from tests.unit.core.conftest import Fetcher, MakeWorld, World, task

GROWING = 100

TRAP = "/more/more/more/more"


def trapped(make_world: MakeWorld, **settings: Any) -> World:
    """Make a world whose event comes after few tasks."""
    return make_world({"growing": GROWING} | settings)


def pages(where: str, first: int = 0) -> list[NewTask]:
    """Make tasks enough for an event, if their place is a trap."""
    return [task(_taskid(url), url=url) for url in (f"{where}/{n}" for n in range(first, first + GROWING))]


def _taskid(url: str) -> str:
    return md5(url.encode()).hexdigest()


def push_trap(world: World, host: str = "http://shop.example.org", first: int = 0, project: str = "news") -> None:
    world.push(project, *pages(host + TRAP, first))


def told(world: World, project: str = "news") -> list[str]:
    """List the texts of events about growing slots, in order."""
    return [event.reason for event in world.happened if event.kind == "growing" and event.project == project]


def follow(world: World, fetcher: Fetcher, urls: Iterable[str]) -> None:
    """Let each page link to the known home page, and to the next page."""
    world.push("news", task("home", url="http://shop.example.org/"))
    for url in urls:
        page = fetcher.taken[-1]
        fetcher.done(page, new=[task("home", url="http://shop.example.org/"), task(_taskid(url), url=url)])


def test_a_trap_is_told_with_its_kind_a_url_and_what_to_do(make_world: MakeWorld) -> None:
    world = trapped(make_world)

    push_trap(world)

    (reason,) = told(world)
    assert "the project seems to grow without end" in reason
    assert "(repeated), such as http://shop.example.org/more/more/more/more/" in reason
    assert "set max_depth" in reason


def test_a_trap_is_told_once_a_day(make_world: MakeWorld) -> None:
    world = trapped(make_world)

    push_trap(world)
    world.advance(DAY_SECONDS - 60)
    push_trap(world, first=GROWING)
    assert len(told(world)) == 1

    world.advance(60)
    push_trap(world, first=2 * GROWING)
    assert len(told(world)) == 2


def test_a_restart_does_not_tell_it_again_within_a_day(make_world: MakeWorld) -> None:
    world = trapped(make_world)
    push_trap(world)

    world.restart()
    push_trap(world, first=GROWING)

    assert len(told(world)) == 1


def test_each_slot_is_told_by_itself(make_world: MakeWorld) -> None:
    world = trapped(make_world, slot={"by": "host"})

    for host in ("shop", "news", "shop"):
        push_trap(world, f"http://{host}.example.org")
    world.push("news", *pages("http://plain.example.org/page"))

    assert [reason.partition(" seems")[0] for reason in told(world)] == [
        'slot "shop.example.org"',
        'slot "news.example.org"',
    ]


def test_a_project_is_told_of_a_bounded_number_of_slots_a_day(make_world: MakeWorld) -> None:
    world = trapped(make_world, slot={"by": "host"})

    for n in range(SLOTS_MOST + 2):
        push_trap(world, f"http://host-{n}.example.org")

    assert len(told(world)) == SLOTS_MOST


def test_tasks_of_other_projects_in_a_batch_are_theirs(make_world: MakeWorld) -> None:
    world = trapped(make_world)

    world.push(
        "news", *[task(each.taskid, url=each.url, project="shop") for each in pages("http://a.example.org" + TRAP)]
    )

    assert told(world) == []
    assert len(told(world, "shop")) == 1


def test_a_page_that_leads_to_one_like_it_again_and_again_is_a_trap(make_world: MakeWorld) -> None:
    world = trapped(make_world)
    fetcher = world.fetcher(capacity=1)

    follow(world, fetcher, [f"http://shop.example.org/calendar?month={n}" for n in range(GROWING)])
    assert told(world) == []

    follow(world, fetcher, [f"http://shop.example.org/calendar?month={n}" for n in range(GROWING, 2 * GROWING)])
    (reason,) = told(world)
    assert "(deep)" in reason


def lead(world: World, *urls: str) -> None:
    """Let a page whose id is 0 link to these urls."""
    world.push("news", task("start", url=f"http://shop.example.org/start?id={_taskid('0')}"))
    world.fetcher().done("start", new=[task(_taskid(url), url=url) for url in urls])


def test_an_id_that_each_page_gives_to_all_of_its_links_is_one_of_a_session(make_world: MakeWorld) -> None:
    world = trapped(make_world)

    lead(world, *[f"http://shop.example.org/page-{n}?id={_taskid('1')}" for n in range(GROWING)])

    (reason,) = told(world)
    assert "(session)" in reason


def test_ids_of_documents_that_a_page_leads_to_are_none_of_a_session(make_world: MakeWorld) -> None:
    world = trapped(make_world)
    documents, views = [_taskid(str(n)) for n in range(1, 11)], range(12)

    lead(world, *[f"http://shop.example.org/view-{view}?id={each}" for each in documents for view in views])

    assert told(world) == []


def test_tasks_that_are_known_are_not_new(make_world: MakeWorld) -> None:
    world = trapped(make_world)

    for _ in range(GROWING):
        world.push("news", task("a", url="http://shop.example.org" + TRAP))

    assert told(world) == []


def test_a_long_url_is_shortened(make_world: MakeWorld) -> None:
    world = trapped(make_world)

    push_trap(world, "http://shop.example.org/" + 1000 * "x")

    (reason,) = told(world)
    assert len(reason) < TRAP_URL_CHARS + 300


def test_where_no_number_is_growing_none_is_told(make_world: MakeWorld) -> None:
    world = trapped(make_world, growing=inf)

    push_trap(world)

    assert told(world) == []


def test_it_can_be_switched_on_and_off(make_world: MakeWorld) -> None:
    world = trapped(make_world, growing=inf)

    world.set(growing=GROWING)
    push_trap(world)
    assert len(told(world)) == 1

    world.set(growing=inf)
    world.advance(DAY_SECONDS)
    push_trap(world, first=GROWING)
    assert len(told(world)) == 1


def test_less_than_a_hundred_tasks_are_not_judged(make_world: MakeWorld) -> None:
    request = ProjectSet(session="person", n=1, project="news", settings={"growing": 99})

    reply = trapped(make_world).ask(ErrorReply, request)

    assert reply.reason == "growing must be a number of at least 100 or inf, not 99"
