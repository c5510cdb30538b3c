"""``taskqueue.robots``: what a robots.txt allows, for how long, and what replaces one that can't be fetched."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from taskqueue import Drop, Retry
from taskqueue.robots import AsyncRobots, Robots

if TYPE_CHECKING:
    from tests.unit.robots.conftest import Answer, Clock, Site

Make = Callable[..., Any]

PAGE = "http://site.example/page"
FILE = "http://site.example/robots.txt"
NOTHING = "User-agent: *\nDisallow: /\n"
DAY = 86_400


# -------------------------------------------------------------------------------------------- what it says


def test_a_url_is_allowed_unless_the_rules_for_everybody_disallow_it(make: Make, site: Site) -> None:
    site.says("User-agent: *\nDisallow: /private\nAllow: /private/open\nDisallow: /*.pdf$\n")
    robots = make()

    said = {path: robots.allowed(f"http://site.example{path}") for path in
            ("/", "/private/x", "/private/open", "/a.pdf", "/a.pdf?x", "/robots.txt")}  # fmt: skip

    assert said == {
        "/": True, "/private/x": False, "/private/open": True, "/a.pdf": False, "/a.pdf?x": True, "/robots.txt": True,
    }  # fmt: skip


@pytest.mark.parametrize("named", ["examplebot", "ExampleBot", "ExampleBot/2.0", "examplebot  # ours", "examplebot*"])
def test_rules_for_the_agent_stand_in_place_of_those_for_everybody(make: Make, site: Site, named: str) -> None:
    site.says(f"User-agent: *\nDisallow: /a\n\nUser-agent: other\nUser-agent: {named}\nDisallow: /b\n")
    robots = make()

    assert robots.allowed("http://site.example/a")
    assert not robots.allowed("http://site.example/b")


@pytest.mark.parametrize("named", ["example", "bot", "examplebot-news", "otherbot", ""])
def test_rules_for_others_do_not_count(make: Make, site: Site, named: str) -> None:
    site.says(f"User-agent: *\nDisallow: /a\n\nUser-agent: {named}\nDisallow: /\n")
    robots = make()

    assert robots.allowed(PAGE)
    assert not robots.allowed("http://site.example/a")


def test_scheme_host_and_port_have_a_robots_txt_each(make: Make, site: Site) -> None:
    site.says(NOTHING)
    robots = make()

    assert not robots.allowed("http://SITE.example:80/page")
    assert robots.allowed("https://site.example/page")
    assert robots.allowed("http://site.example:8080/page")
    assert set(site.asked) == {FILE, "https://site.example/robots.txt", "http://site.example:8080/robots.txt"}


@pytest.mark.parametrize("url", ["data:,on_start", "s3://bucket/key", "user-42", "http://"])
def test_what_is_not_fetched_by_http_is_allowed_and_nothing_is_asked_for_it(make: Make, site: Site, url: str) -> None:
    robots = make()

    robots.check(url)

    assert robots.allowed(url)
    assert robots.crawl_delay(url) is None
    assert not site.asked


@pytest.mark.parametrize("agent", ["", "example bot", "ExampleBot/1.0 (+http://site.example)", "*", "é"])
def test_an_agent_is_a_token_and_no_header(site: Site, agent: str) -> None:
    with pytest.raises(ValueError, match="agent: expected a product token"):
        Robots(site.fetch, agent)


@pytest.mark.parametrize(
    ("said", "delay"), [("3", 3.0), ("2.5", 2.5), ("0", 1.0), ("9999", 300.0), ("inf", None), ("-1", None), ("x", None)]
)
def test_a_crawl_delay_counts_within_bounds(make: Make, site: Site, said: str, delay: float | None) -> None:
    site.says(f"User-agent: *\nCrawl-delay: {said}\n")

    assert make().crawl_delay(PAGE) == delay


def test_the_bounds_of_a_crawl_delay_are_the_users(make: Make, site: Site) -> None:
    site.says("User-agent: *\nCrawl-delay: 0.2\n")
    site.says("User-agent: *\nCrawl-delay: 50\n", origin="http://slow.example")
    robots = make(min_delay=0.5, max_delay=10)

    assert (robots.crawl_delay(PAGE), robots.crawl_delay("http://slow.example/")) == (0.5, 10)
    with pytest.raises(ValueError, match="min_delay"):
        make(min_delay=5, max_delay=1)


def test_a_byte_order_mark_and_bytes_that_are_no_text_do_no_harm(make: Make, site: Site) -> None:
    site.says(b"\xef\xbb\xbfUser-agent: *\r\nDisallow: /a\xff\r\nDisallow: /b\r\n")
    robots = make()

    assert not robots.allowed("http://site.example/b")
    assert robots.allowed("http://site.example/a")


def test_half_a_megabyte_is_read_and_no_half_line(make: Make, site: Site) -> None:
    within = "User-agent: *\nDisallow: /private\n".rjust(500 << 10, "\n")
    cut = "User-agent: *\nDisallow: /".rjust(500 << 10, "\n") + "private\n"
    site.says(within)
    site.says(cut, origin="http://long.example")
    robots = make()

    assert not robots.allowed("http://site.example/private")
    assert robots.allowed("http://long.example/page")


# -------------------------------------------------------------------------------------------- answers


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451])
def test_a_site_without_a_robots_txt_allows_everything(make: Make, site: Site, status: int) -> None:
    site.says(NOTHING, status=status)

    assert make().allowed(PAGE)


TROUBLE = [500, 503, 599, 429, 302, 100, OSError("no route"), TimeoutError()]


@pytest.mark.parametrize("how", TROUBLE)
def test_a_robots_txt_that_cannot_be_had_allows_nothing(make: Make, site: Site, how: int | Exception) -> None:
    site.fails(how)

    assert not make().allowed(PAGE)


@pytest.mark.parametrize("how", TROUBLE)
def test_a_robots_txt_that_cannot_be_had_any_more_is_as_it_was(
    make: Make, site: Site, clock: Clock, how: int | Exception
) -> None:
    site.says("User-agent: *\nDisallow: /a\n")
    robots = make()
    robots.allowed(PAGE)

    site.fails(how)
    clock.goes_on(2 * DAY)

    assert robots.allowed(PAGE)
    assert not robots.allowed("http://site.example/a")
    assert site.asked[FILE] == 2


def test_a_fetch_function_that_returns_something_else_is_a_mistake(site: Site) -> None:
    def fetch(url: str) -> Any:
        return b"User-agent: *"

    with pytest.raises(TypeError, match="a tuple of status and body"):
        Robots(fetch, "examplebot").allowed(PAGE)


# -------------------------------------------------------------------------------------------- in a handler


def test_check_lets_pass_what_is_allowed_and_drops_what_is_not(make: Make, site: Site) -> None:
    site.says("User-agent: *\nDisallow: /a\n")
    robots = make()

    robots.check(PAGE)
    with pytest.raises(Drop, match=r"http://site\.example/robots\.txt disallows it"):
        robots.check("http://site.example/a")


def test_check_has_a_task_wait_while_the_site_answers_with_errors(make: Make, site: Site, clock: Clock) -> None:
    site.fails(503)
    robots = make()

    with pytest.raises(Retry, match="503") as first:
        robots.check(PAGE)
    clock.goes_on(45)
    with pytest.raises(Retry) as second:
        robots.check(PAGE)

    assert (first.value.after, second.value.after) == (60, 15)


def test_check_is_a_failure_like_others_while_the_site_is_not_there(make: Make, site: Site) -> None:
    site.fails(OSError("no route"))

    with pytest.raises(ConnectionError, match=r"http://site\.example/robots\.txt: OSError: no route"):
        make().check(PAGE)


# -------------------------------------------------------------------------------------------- how long


def test_a_robots_txt_is_fetched_once_a_day(make: Make, site: Site, clock: Clock) -> None:
    site.says(NOTHING)
    robots = make()

    said = [robots.allowed(PAGE)]
    clock.goes_on(DAY - 1)
    said.append(robots.allowed(PAGE))
    asked = site.asked[FILE]
    site.says("")
    clock.goes_on(1)
    said.append(robots.allowed(PAGE))

    assert said == [False, False, True]
    assert (asked, site.asked[FILE]) == (1, 2)


def test_it_may_be_fetched_more_often_and_not_less(make: Make, site: Site, clock: Clock) -> None:
    robots = make(max_age=60)
    robots.allowed(PAGE)
    clock.goes_on(60)
    robots.allowed(PAGE)

    assert site.asked[FILE] == 2
    for seconds in (0, -1, DAY + 1):
        with pytest.raises(ValueError, match="max_age"):
            make(max_age=seconds)


def test_one_that_cannot_be_had_is_asked_for_at_longer_and_longer_intervals(
    make: Make, site: Site, clock: Clock
) -> None:
    site.fails(500)
    robots = make()
    asked_at = []

    for minute in range(250):
        before = site.asked[FILE]
        robots.allowed(PAGE)
        if site.asked[FILE] > before:
            asked_at.append(minute)
        clock.goes_on(60)

    assert asked_at == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]


def test_it_is_good_for_a_day_again_as_soon_as_it_can_be_had(make: Make, site: Site, clock: Clock) -> None:
    site.fails(500)
    robots = make()
    robots.allowed(PAGE)
    site.says("")
    clock.goes_on(60)

    assert robots.allowed(PAGE)
    clock.goes_on(DAY - 1)
    assert robots.allowed(PAGE)
    assert site.asked[FILE] == 2


def test_the_sites_that_were_asked_for_last_are_remembered(make: Make, site: Site) -> None:
    robots = make(max_origins=2)

    for host in ("a", "b", "a", "c", "a", "b"):
        robots.allowed(f"http://{host}.example/")

    assert site.asked == {
        "http://a.example/robots.txt": 1, "http://b.example/robots.txt": 2, "http://c.example/robots.txt": 1,
    }  # fmt: skip
    with pytest.raises(ValueError, match="max_origins"):
        make(max_origins=0)


def test_large_files_make_room_for_each_other(make: Make, site: Site) -> None:
    text = "User-agent: *\n" + f"Disallow: /{'a' * 2000}\n" * 250
    for number in range(20):
        site.says(text, origin=f"http://{number}.example")
    robots = make()

    for _ in range(2):
        for number in range(20):
            robots.allowed(f"http://{number}.example/")

    assert set(site.asked.values()) == {2}


# -------------------------------------------------------------------------------------------- at once


def test_threads_that_ask_at_once_have_it_fetched_once() -> None:
    asked: list[str] = []
    begun, go_on = threading.Event(), threading.Event()

    def fetch(url: str) -> Answer:
        asked.append(url)
        begun.set()
        assert go_on.wait(20)
        return 200, NOTHING.encode()

    robots = Robots(fetch, "examplebot")
    said: list[bool] = []
    threads = [threading.Thread(target=lambda: said.append(robots.allowed(PAGE))) for _ in range(8)]
    for thread in threads:
        thread.start()
    assert begun.wait(20)
    go_on.set()
    for thread in threads:
        thread.join()

    assert said == [False] * 8
    assert asked == [FILE]


def test_a_thread_that_waited_for_one_that_fell_fetches_it_itself() -> None:
    begun, go_on = threading.Event(), threading.Event()
    answers: list[Any] = ["nonsense", (200, b"")]

    def fetch(url: str) -> Any:
        begun.set()
        assert go_on.wait(20)
        return answers.pop(0)

    robots = Robots(fetch, "examplebot")
    said: list[object] = []

    def ask() -> None:
        try:
            said.append(robots.allowed(PAGE))
        except TypeError as error:
            said.append(type(error))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert begun.wait(20)
    go_on.set()
    for thread in threads:
        thread.join()

    assert said == [TypeError, True]


def test_coroutines_that_ask_at_once_have_it_fetched_once_even_if_the_first_is_cancelled() -> None:
    asked: list[str] = []

    async def ask() -> list[Any]:
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def fetch(url: str) -> Answer:
            asked.append(url)
            begun.set()
            await go_on.wait()
            return 200, NOTHING.encode()

        robots = AsyncRobots(fetch, "examplebot")
        tasks = [asyncio.create_task(robots.allowed(PAGE)) for _ in range(5)]
        await begun.wait()
        tasks[0].cancel()
        go_on.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    first, *others = asyncio.run(ask())

    assert isinstance(first, asyncio.CancelledError)
    assert others == [False] * 4
    assert asked == [FILE]


def test_a_site_that_is_slow_holds_up_no_other(site: Site) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def fetch(url: str) -> Answer:
        if url == FILE:
            begun.set()
            assert go_on.wait(20)
        return 200, b""

    robots = Robots(fetch, "examplebot")
    slow = threading.Thread(target=robots.allowed, args=(PAGE,))
    slow.start()
    assert begun.wait(20)

    said = robots.allowed("http://other.example/")
    still = slow.is_alive()
    go_on.set()
    slow.join()

    assert (said, still) == (True, True)


# -------------------------------------------------------------------------------------------- hostile

HOSTILE = {
    "agents": "".join(f"User-agent:{n}\n" for n in range(9_000)) + "".join(f"Allow:/{n}\n" for n in range(36_000)),
    "agents with wildcards": "".join(f"User-agent:*{n}*\n" for n in range(9_000)) + "Allow:/a\n" * 36_000,
    "rules": "User-agent:*\n" + "".join(f"Allow:/{n}\n" for n in range(60_000)),
    "wildcards": "User-agent:*\n" + "".join("Allow:/" + "*a" * 20 + f"*b{n}\n" for n in range(60_000)),
    "a long pattern": "User-agent:*\nDisallow:/" + "*a" * 250_000 + "b",
    "ends": "User-agent:*\nDisallow:/" + "$" * 500_000,
    "sitemaps": "Sitemap:/\n" * 60_000,
    "one line": "User-agent " * 50_000,
    "spaces": "user" + " " * 500_000,
    "nothing": "\0" * 600_000,
}
"""Files of half a megabyte each, over which a careless parser takes minutes or gigabytes."""


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_file_that_is_made_to_hurt_is_read_in_one_pass(site: Site, text: str) -> None:
    site.says(text)

    assert Robots(site.fetch, "examplebot").allowed("http://site.example/" + "a" * 8000)


def test_without_protego_the_error_says_what_to_install() -> None:
    code = "import sys; sys.modules['protego'] = None; import taskqueue.robots"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert "pip install 'taskqueue-scheduler[robots]'" in done.stderr.splitlines()[-1]


def test_taskqueue_itself_does_without_protego() -> None:
    code = "import sys; sys.modules['protego'] = None; from taskqueue import *"

    subprocess.run([sys.executable, "-c", code], check=True)
