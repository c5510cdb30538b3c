"""Make the pictures of the documents: ``python -m tests.integration.browser.screenshots [FOLDER]``, five minutes.

Opens the dashboard of a believable crawl in Debian's Chromium, as wide as a phone, a laptop and a large screen, light
and dark.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any, Final

from playwright.sync_api import Browser, ViewportSize

from taskqueue import Client, Task, new_task
from tests.integration.browser.conftest import Site, chromium, serving

CRAWL_SECONDS: Final = 200.0
"""Length of the crawl, so that the history has several minutes."""

FLOW_SECONDS: Final = 7.0
"""Time before the flow's pictures, which are taken first; a part of the flow has run by then."""

SITES: Final = {
    "news": ("daily", 8.0, "https://news.example/2026/11/{:05d}.html"),
    "weather": ("daily", 2.0, "https://weather.example/station/{:05d}"),
    "sports": ("daily", 5.0, "https://sports.example/match/{:05d}"),
    "shop": ("shops", 6.0, "https://shop.example/item/{:05d}"),
    "books": ("shops", 3.0, "https://books.example/isbn/978{:010d}"),
    "recipes": ("", 1.5, "https://recipes.example/{:05d}"),
    "archive": ("", 0.5, "https://archive.example/page/{:05d}"),
}
"""Groups of projects: rows of (group, tasks a second, pattern of urls)."""

ERRORS: Final = (
    "HTTPError: 503 Service Unavailable",
    "ConnectTimeout: no answer within 30 s",
    "HTTPError: 404 Not Found",
    "ParserError: no price on the page",
)

SHELVES: Final = ("novels", "travel", "science", "children")
GRAPH: Final[dict[str, dict[str, Any]]] = {
    "front": {"url": "https://books.example/", "priority": 9},
    **{
        shelf: {"url": f"https://books.example/{shelf}?since={{tick}}", "priority": 9, "after": ["front"]}
        for shelf in SHELVES
    },
    "prices": {"url": "https://books.example/prices", "priority": 9, "after": list(SHELVES)},
    "report": {"priority": 9, "after": ["prices"]},
}
"""Graph of a cron entry of books; ten of its ticks fit into the crawl."""

PICTURES: Final = (
    ("flow", "/projects/shop/flows/nightly", 1280, 1000, "light"),
    ("flow-dark", "/projects/shop/flows/nightly", 1280, 1000, "dark"),
    ("flow-phone", "/projects/shop/flows/nightly", 390, 844, "light"),
    ("projects", "/", 1280, 800, "light"),
    ("projects-dark", "/", 1280, 800, "dark"),
    ("projects-wide", "/", 1920, 1080, "light"),
    ("projects-phone", "/", 390, 844, "light"),
    ("project", "/projects/news", 1280, 1000, "light"),
    ("project-dark", "/projects/news", 1920, 1200, "dark"),
    ("project-phone", "/projects/news", 390, 844, "dark"),
    ("cron", "/projects/books/cron/new-books", 1280, 800, "light"),
    ("tasks", "/projects/news/tasks?state=failed", 1280, 800, "light"),
    ("task", "", 1280, 1000, "light"),
    ("failures", "/failures", 1280, 700, "light"),
    ("fetchers", "/fetchers", 1280, 600, "light"),
    ("log", "/log", 1280, 600, "light"),
    ("daemon", "/daemon", 1280, 1000, "dark"),
)
"""Rows of (name, address, width, height, colours); the address of ``task`` is that of a task that failed."""


def main() -> None:
    """Make all pictures."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/img")
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as place, serving(Path(place)) as site, crawling(site), chromium() as browser:
        # The daemon keeps points of the last minutes only for an open dashboard.
        looking = browser.new_page()
        looking.goto(f"{site.address}/daemon")
        looking.wait_for_timeout(1000 * CRAWL_SECONDS)
        submit(site.client)
        looking.wait_for_timeout(1000 * FLOW_SECONDS)
        for name, path, width, height, colours in PICTURES:
            take(browser, site, path or failed_task(site.client), width, height, colours, folder / f"{name}.png")
            print(folder / f"{name}.png")


def take(browser: Browser, site: Site, path: str, width: int, height: int, colours: str, file: Path) -> None:
    """Save a picture of the visible part of a page."""
    dark = colours == "dark"
    size = ViewportSize(width=width, height=height)
    context = browser.new_context(
        viewport=size, color_scheme="dark" if dark else "light", timezone_id="Europe/Berlin", locale="en-GB"
    )
    page = context.new_page()
    page.goto(site.address + path, wait_until="load")
    if page.locator("body").get_attribute("data-live"):
        page.locator('#pulse[data-state="live"]').wait_for()
    page.wait_for_timeout(1500)
    page.screenshot(path=file)
    context.close()


def failed_task(client: Client) -> str:
    """Return the address of a failed task."""
    return f"/projects/news/tasks/{client.tasks.list('news', 'failed').items[0].taskid}"


@contextmanager
def crawling(site: Site) -> Iterator[None]:
    """Run a crawl of several sites by three fetchers, until the end."""
    with ExitStack() as stack:
        ended = Event()
        pool = stack.enter_context(ThreadPoolExecutor())
        stack.callback(ended.set)
        fill(site.client)
        for number in range(3):
            name = f"crawler-{number + 1}@web{number % 2 + 1}"
            client = stack.enter_context(Client(site.client.daemon_address, name=name))
            pool.submit(fetch, client, Random(number), ended)
        yield


def fill(client: Client) -> None:
    """Create projects, tasks, cron entries, and traces of an operator."""
    for name, (group, rate, form) in SITES.items():
        client.projects.set(name, {"rate": rate, "burst": 4 * rate, "retries": 2, "retry_delay": [20, 3600]})
        if group:
            client.projects.set(name, {"group": group})
        client.push_many(name, (form.format(number) for number in range(int(rate * 400))))
        client.push_many(name, [new_task(form.format(90_000 + number), delay=600.0 + number) for number in range(40)])
    client.projects.set("news", {"cron": {"front-page": {"every": "5m"}, "sitemap": {"cron": "0 4 * * *"}}})
    client.cron.set("books", "new-books", every="20s", overlap="both", tasks=GRAPH)
    client.projects.pause("archive")


def submit(client: Client) -> None:
    """Submit a flow, late enough that it is running in its picture."""
    flow = client.flow("shop", "nightly")
    front = flow.task("https://shop.example/", priority=9)
    kinds = [flow.task(f"https://shop.example/{kind}/", after=[front], priority=9) for kind in ("men", "women", "kids")]
    pages = [flow.task(f"https://shop.example/{n % 3}/{n}", after=[kinds[n % 3]], priority=9) for n in range(12)]
    prices = [flow.task(f"https://shop.example/prices/{n}", after=pages[n::3], priority=9) for n in range(3)]
    flow.task("https://shop.example/report", after=prices)
    flow.submit()


def fetch(client: Client, rng: Random, ended: Event) -> None:
    """Run tasks as a crawler does: some take longer, some fail."""
    while not ended.is_set():
        for task in client.select(6, timeout=0.5):
            ended.wait(
                rng.expovariate(15.0) + (1.5 if "/prices/" in task.url or "shop.example/1/" in task.url else 0.0)
            )
            run(client, rng, task)


def run(client: Client, rng: Random, task: Task) -> None:
    """Run a task, and report a random outcome."""
    if (task.url.startswith("https://shop.example/") and "/item/" not in task.url) or rng.random() < 0.9:
        client.done(task, result={"status": 200, "bytes": rng.randrange(4_000, 90_000)})
    else:
        client.failed(task, f"Traceback (most recent call last):\n{rng.choice(ERRORS)}", retry=rng.random() < 0.6)


if __name__ == "__main__":
    main()
