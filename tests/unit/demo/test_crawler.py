"""The demo's handler: what it makes of each kind of answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from taskqueue import Drop, Retry, Task
from taskqueue.demo.crawler import ARCHIVE_SECONDS, crawl
from taskqueue.demo.page import Page, Progress, Site, no_progress, not_found
from taskqueue.protocol.fields import Assignment, Token

PAGES = {
    "/": Page(
        200, b'<a href="/a?y=1&amp;x=2&amp;utm_source=h">a</a> <a href="/archive/1#x">old</a> <a href="#top">top</a>'
    ),
    "/old": Page(302, location="/a#part"),
    "/text": Page(200, b'<a href="/never">', "text/plain"),
    "/busy": Page(503),
    "/a?x=2&y=1": Page(200, b"parameters arrive as they are"),
}


class Pages:
    """A site of a few pages."""

    def page(self, target: str) -> Page:
        return PAGES.get(target) or not_found(target)

    def expected(self, tell: Progress = no_progress) -> Mapping[str, int]:
        return {}


@pytest.fixture
def found(serve: Callable[[Site], int]) -> Callable[[str], list[tuple[str, float | None]]]:
    """Crawl a target; the (target, delay) of its new tasks."""
    base = f"http://127.0.0.1:{serve(Pages())}"

    def crawled(target: str) -> list[tuple[str, float | None]]:
        task = Task(Assignment("demo", "id", base + target, Token(1), 60.0))
        return [(new.url.removeprefix(base), new.schedule.delay) for new in crawl(task)]

    return crawled


Found = Callable[[str], list[tuple[str, float | None]]]


def test_links_become_tasks_in_their_one_way_and_the_archive_waits(found: Found) -> None:
    assert found("/") == [("/a?x=2&y=1", None), ("/archive/1", ARCHIVE_SECONDS)]


def test_a_redirect_is_not_followed_but_becomes_a_task(found: Found) -> None:
    assert found("/old") == [("/a", None)]


def test_other_files_lead_nowhere(found: Found) -> None:
    assert found("/text") == []


def test_a_query_is_asked_for(found: Found) -> None:
    assert found("/a?x=2&y=1") == []


def test_a_missing_page_is_dropped_with_its_status(found: Found) -> None:
    with pytest.raises(Drop, match="404 Not Found"):
        found("/gone")


def test_a_busy_site_is_asked_again_later(found: Found) -> None:
    with pytest.raises(Retry):
        found("/busy")
