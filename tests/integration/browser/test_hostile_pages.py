"""Crawled, reported and configured texts stay text in the dashboard: none runs, leads away or is fetched.

Every window watches for it (``conftest``).
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser

from taskqueue import Client
from tests.integration.browser.conftest import Reader, Site, assert_tame
from tests.integration.browser.crawl import HOSTILE_NAME, MARKUP, TEXTS

PLACES: Final = (
    "/projects/hostile/tasks?state=failed",
    f"/projects/hostile/tasks?state=failed&url={quote(MARKUP)}&error={quote(MARKUP)}",
    "/failures?project=hostile",
    "/failures?project=hostile&by=host",
    f"/fetchers?filter={quote(MARKUP[:64])}",
    f"/fetchers/{quote(HOSTILE_NAME, safe='')}",
    f"/?filter={quote(MARKUP[:64])}&group={quote(MARKUP[:64])}",
)


@pytest.mark.parametrize("path", PLACES)
def test_what_is_hostile_is_text_in_a_page(reader: Reader, path: str) -> None:
    assert_tame(reader.open(path))


@pytest.mark.parametrize("path", ["/failures", "/log", "/", "/fetchers"])
def test_what_is_hostile_in_an_address_is_refused_and_is_text_where_that_is_said(reader: Reader, path: str) -> None:
    page = reader.open(f"{path}?project={quote(MARKUP)}&filter={quote(MARKUP)}")

    assert_tame(page)
    reader.expected("status of 400")


def test_a_hostile_task_is_text_in_its_page(reader: Reader, site: Site) -> None:
    for place in range(len(TEXTS)):
        taskid = f"{place}{TEXTS[place][:60]}"
        page = reader.open(f"/projects/hostile/tasks/{quote(taskid, safe='')}")

        assert page.locator("h1").count() == 1
        assert_tame(page)


def test_a_hostile_error_arrives_live_as_text(reader: Reader, site: Site) -> None:
    with Client(site.daemon.url, name=HOSTILE_NAME) as fetcher:
        fetcher.push("hostile", "http://live.example/", taskid="live", priority=9)
        [task] = fetcher.select(1, projects=["hostile"])
        page = reader.open("/projects/hostile/tasks/live")
        fetcher.failed(task, f"Live{MARKUP}", retry=False)
    page.get_by_text("Live\"'><script>").first.wait_for()

    assert_tame(page)


KNOCK: Final = """async (address) => {
  const loaded = (tag, name) => new Promise((resolve) => {
    const one = document.createElement(tag);
    one.onload = () => resolve("loaded");
    one.onerror = () => resolve("failed");
    one.src = `${address}/${name}`;
    document.body.append(one);
  });
  const posted = fetch(`${address}/api`, {method: "POST", mode: "no-cors", body: "x".repeat(100000)});
  const spoken = new Promise((resolve) => {
    const one = new WebSocket(address.replace("http", "ws"));
    one.onopen = () => resolve("loaded");
    one.onerror = () => resolve("failed");
  });
  const images = [...Array(20).keys()].map((number) => loaded("img", `${number}.png`));
  const asked = [...images, loaded("script", "a.js"), posted.then(() => "loaded", () => "failed"), spoken];
  return [...new Set(await Promise.all(asked))];
}"""
"""Requests that a foreign page can send to any port of the user's machine; returns how each ended."""


def test_a_foreign_page_that_asks_the_daemons_own_port_for_images_does_nothing_to_it(
    browser: Browser, site: Site
) -> None:
    context = browser.new_context()

    ended = context.new_page().evaluate(KNOCK, site.daemon.url.replace("tcp", "http"))

    context.close()
    assert ended == ["failed"]
    assert site.client.push("hostile", "http://after.example/") == "new"
    assert "Traceback" not in site.daemon.log()
