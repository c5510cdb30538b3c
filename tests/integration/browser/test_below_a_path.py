"""The pages in a browser behind a reverse proxy that shows them below a path: streams arrive, buttons do what they say.

Every window watches that nothing is asked for outside of the path, and that nothing is missing; see ``conftest``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
from playwright.sync_api import expect

from tests.integration.browser.conftest import Reader, Site, serving
from tests.integration.browser.crawl import crawl
from tests.integration.browser.test_pages import PAGES
from tests.integration.reverse_proxy import proxy

PATH: Final = "/tools/taskqueue"
TRUSTED: Final = {
    "TASKQUEUE_WEB_TRUST_PROXY": "127.0.0.1",
    "TASKQUEUE_WEB_PROXY_HEADER": "X-Forwarded-User",
    "TASKQUEUE_WEB_PROXY_ROLE": "admin",
}


@pytest.fixture(scope="module", params=["stripped", "kept"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A daemon's own pages behind a proxy; the path is a header of each request, or chosen for the daemon."""
    strips = request.param == "stripped"
    chosen = TRUSTED if strips else TRUSTED | {"TASKQUEUE_WEB_ROOT_PATH": PATH}
    says = {"X-Forwarded-User": "anna"} | ({"X-Forwarded-Prefix": PATH} if strips else {})
    with (
        serving(tmp_path_factory.mktemp("site"), chosen) as it,
        crawl(it.client),
        proxy(it.address, PATH, says, strips=strips) as there,
    ):
        it.client.push("names", "http://names/", taskid="..")
        yield it._replace(address=there.address)


def test_every_page_opens_below_the_path_and_its_stream_arrives(reader: Reader) -> None:
    for path in (*PAGES, "/projects/names/tasks/~.."):
        page = reader.open(path)
        assert page.locator(".places a").first.get_attribute("href") == f"{PATH}/"


def test_the_places_at_the_top_lead_from_page_to_page(reader: Reader, site: Site) -> None:
    page = reader.open("/projects/news")
    for name in page.locator(".places a").all_inner_texts():
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).click()
        expect(page.get_by_role("heading", level=1)).to_have_count(1)
        assert page.url.startswith(f"{site.address}/")


def test_what_is_done_on_a_page_is_done_and_seen_by_its_stream(reader: Reader, site: Site) -> None:
    page = reader.open("/")
    row = page.locator('[data-row="news"]')
    row.get_by_label("Actions of news").click()
    row.get_by_role("button", name="Pause").click()
    page.get_by_role("dialog", name="Pause news?").get_by_role("button", name="Pause").click()
    expect(row.locator('[data-cell="state"]')).to_have_text("paused")

    assert site.client.projects.resume("news").state == "running"
    expect(row.locator('[data-cell="state"]')).to_have_text("running")


def test_a_task_named_by_dots_runs_again_on_its_page(reader: Reader, site: Site) -> None:
    page = reader.open("/projects/names/tasks/~..")
    page.get_by_role("button", name="Which would run?").click()

    expect(page.locator("#rerun-words")).to_contain_text("1 task would run again")


def test_an_operation_leads_to_its_page(reader: Reader, site: Site) -> None:
    page = reader.open("/projects/news/tasks?state=ready&url=*/11?.html")
    page.get_by_role("button", name="Set priority…").click()
    page.get_by_role("dialog").get_by_role("button", name="Reprioritise").click()
    expect(page.locator("#progress-words")).to_contain_text("Reprioritised")
    page.get_by_role("link", name="Details").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("Reprioritise")
    assert page.url.startswith(f"{site.address}/operations/")
