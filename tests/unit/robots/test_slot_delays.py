"""``taskqueue.robots``: a site's crawl-delay becomes the delay of its slot."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from taskqueue import Drop, RequestTimeout, Retry
from taskqueue.robots import AsyncRobots, Robots

if TYPE_CHECKING:
    from tests.unit.robots.conftest import Clock, Site, Slots

Make = Callable[..., Any]

PAGE = "http://site.example/page"
HTTPS = "https://site.example"
DAY = 86_400


def asks(seconds: float) -> str:
    """Make a robots.txt that asks for a delay."""
    return f"User-agent: *\nDisallow: /private\nCrawl-delay: {seconds}\n"


@pytest.mark.parametrize("question", ["allowed", "check", "crawl_delay", "sitemap_tasks"])
def test_whatever_is_asked_first_tells_the_slot_in_each_project(
    make: Make, site: Site, slots: Slots, question: str
) -> None:
    site.says(asks(5))
    robots = make(slots=slots, projects=["news", "shop"])

    list(getattr(robots, question)(PAGE) or () if question == "sitemap_tasks" else [getattr(robots, question)(PAGE)])

    assert slots.told == [("news", "site.example", 5.0), ("shop", "site.example", 5.0)]


def test_it_is_told_once_for_each_change(make: Make, site: Site, slots: Slots, clock: Clock) -> None:
    site.says(asks(5))
    robots = make(slots=slots, projects=["news"])

    for seconds in (5, 5, 2, 2, 7):
        site.says(asks(seconds))
        for _ in range(3):
            robots.allowed(PAGE)
        clock.goes_on(DAY)

    assert [delay for _, _, delay in slots.told] == [5, 2, 7]


def test_a_page_that_is_not_wanted_tells_it_too(make: Make, site: Site, slots: Slots) -> None:
    site.says(asks(5))

    with pytest.raises(Drop):
        make(slots=slots, projects=["news"]).check("http://site.example/private")

    assert slots.told == [("news", "site.example", 5.0)]


def test_a_slot_has_its_name_in_projects_however_a_url_spells_the_host(make: Make, site: Site, slots: Slots) -> None:
    urls = ["http://ann@SITE.example:080/a", "http://site.example:8080/b", "http://bücher.example/"]
    urls += ["http://B%C3%BCcher.example/2", "http://xn--bcher-kva.example/3"]
    for origin in ("http://site.example", "http://site.example:8080", "http://xn--bcher-kva.example"):
        site.says(asks(5), origin=origin)
    robots = make(slots=slots, projects=["news"])

    for url in urls:
        robots.allowed(url)

    assert [slot for _, slot, _ in slots.told] == ["site.example", "site.example:8080", "xn--bcher-kva.example"]


def test_slots_may_be_named_otherwise(make: Make, site: Site, slots: Slots) -> None:
    site.says(asks(5))
    site.says(asks(5), origin="http://other.example")
    names = {PAGE: "a", "http://other.example/": ""}
    robots = make(slots=slots, projects=["news"], slot_of=names.__getitem__)

    for url in names:
        robots.allowed(url)

    assert slots.told == [("news", "a", 5.0)]


def test_sites_of_one_slot_are_left_alone_for_as_long_as_the_one_that_asks_for_the_most(
    make: Make, site: Site, slots: Slots, clock: Clock
) -> None:
    robots = make(slots=slots, projects=["news"])

    for http, https in [(3, 5), (3, 2), (3, 2)]:
        site.says(asks(http))
        site.says(asks(https), origin=HTTPS)
        for _ in range(2):
            robots.allowed(f"{HTTPS}/page")
            robots.allowed(PAGE)
        clock.goes_on(DAY)

    assert [delay for _, _, delay in slots.told] == [5, 2, 3]


def test_who_asks_for_nothing_tells_nothing_and_takes_nothing_back(
    make: Make, site: Site, slots: Slots, clock: Clock
) -> None:
    robots = make(slots=slots, projects=["news"])
    robots.allowed(PAGE)
    for text in (asks(5), "", asks(5)):
        clock.goes_on(DAY)
        site.says(text)
        robots.allowed(PAGE)

    assert [delay for _, _, delay in slots.told] == [5, 5]


def test_a_site_that_cannot_be_had_tells_what_its_last_copy_said(
    make: Make, site: Site, slots: Slots, clock: Clock
) -> None:
    site.says(asks(5))
    robots = make(slots=slots, projects=["news"])
    robots.allowed(PAGE)
    site.fails(503)
    clock.goes_on(DAY)

    assert robots.crawl_delay(PAGE) == 5
    assert len(slots.told) == 1


def test_what_a_daemon_did_not_hear_is_told_again_after_a_minute(
    make: Make, site: Site, slots: Slots, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    site.says(asks(5))
    robots = make(slots=slots, projects=["news"])
    slots.fails = RequestTimeout("no answer")

    said = [robots.allowed(PAGE), robots.allowed(PAGE)]
    slots.fails = None
    clock.goes_on(59)
    said.append(robots.allowed(PAGE))
    told_before = list(slots.told)
    clock.goes_on(1)
    said.append(robots.allowed(PAGE))

    assert said == [True] * 4
    assert (told_before, slots.told) == ([], [("news", "site.example", 5.0)])
    assert caplog.text.count("event=slot-untold slot='site.example' delay=5") == 1


def test_a_handler_that_is_cancelled_while_it_tells_leaves_it_to_the_next(site: Site, clock: Clock) -> None:
    site.says(asks(5))
    told: list[float] = []

    async def ask() -> None:
        begun = asyncio.Event()

        class Hanging:
            async def set(self, project: str, slot: str, *, delay: float) -> None:
                if not begun.is_set():
                    begun.set()
                    await asyncio.Event().wait()
                told.append(delay)

        robots = AsyncRobots(site.fetch_async, "examplebot", slots=Hanging(), projects=["news"])
        first = asyncio.create_task(robots.allowed(PAGE))
        await begun.wait()
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        clock.goes_on(60)
        await robots.allowed(PAGE)

    asyncio.run(ask())

    assert told == [5.0]


def test_projects_must_be_named_and_are_several(site: Site, slots: Slots) -> None:
    with pytest.raises(ValueError, match="projects: name the projects"):
        Robots(site.fetch, "examplebot", slots=slots)
    with pytest.raises(TypeError, match="projects: expected several, got 'news'"):
        Robots(site.fetch, "examplebot", slots=slots, projects="news")


def test_the_slots_of_the_sites_that_were_asked_for_last_are_remembered(make: Make, site: Site, slots: Slots) -> None:
    for host in "abc":
        site.says(asks(5), origin=f"http://{host}.example")
    robots = make(slots=slots, projects=["news"], max_origins=2)

    for host in "abcca":
        robots.allowed(f"http://{host}.example/")

    assert "".join(slot[0] for _, slot, _ in slots.told) == "abca"


def test_the_trouble_of_a_site_comes_with_its_status(make: Make, site: Site) -> None:
    site.fails(503)

    with pytest.raises(Retry) as raised:
        make().check(PAGE)

    assert raised.value.status_code == 503
