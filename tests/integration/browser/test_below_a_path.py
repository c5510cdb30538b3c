"""The dashboard in a browser, below a path of a reverse proxy: streams arrive, buttons work.

Every window fails its test if it asks for anything outside of the path, or for something that is missing
(``conftest``).
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
ONE_OF_EACH: Final = (
    *(page for page in PAGES if "?" not in page and "hostile" not in page),
    "/projects/names/tasks/~..",
)
"""Pages of each kind; ``tests.integration.test_below_a_path`` follows all links."""

ONCE: Final = pytest.mark.parametrize("site", ["stripped"], indirect=True)
"""Mark of tests that need one proxy only; ``tests.integration.test_below_a_path`` compares the links of both."""

TRUSTED: Final = {
    "TASKQUEUE_WEB_TRUST_PROXY": "127.0.0.1",
    "TASKQUEUE_WEB_PROXY_HEADER": "X-Forwarded-User",
    "TASKQUEUE_WEB_PROXY_ROLE": "admin",
}


@pytest.fixture(scope="module", params=["stripped", "kept"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Dashboard behind a proxy; the path is a header of each request, or an option of the web process."""
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


@ONCE
def test_every_page_opens_below_the_path_its_stream_arrives_and_its_places_lead_there(
    reader: Reader, site: Site
) -> None:
    for path in ONE_OF_EACH:
        page = reader.open(path)
        places = page.locator(".places a").evaluate_all("(all) => all.map((one) => one.getAttribute('href'))")
        assert {*places} == {f"{PATH}{one}" for one in ONE_OF_EACH if one.count("/") == 1}

    page.locator(".places a").first.click()
    page.locator('[data-row="news"]').wait_for()
    assert page.url == f"{site.address}/"


def test_what_is_done_on_a_page_is_done_and_seen_by_its_stream(reader: Reader, site: Site) -> None:
    page = reader.open("/")
    row = page.locator('[data-row="news"]')
    row.get_by_label("Actions of news").click()
    row.get_by_role("button", name="Pause").click()
    page.get_by_role("dialog", name="Pause news?").get_by_role("button", name="Pause").click()
    expect(row.locator('[data-cell="state"]')).to_have_text("paused")

    assert site.client.projects.resume("news").state == "running"
    expect(row.locator('[data-cell="state"]')).to_have_text("running")


@ONCE
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
