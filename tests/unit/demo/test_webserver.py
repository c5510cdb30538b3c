"""The site over HTTP: answers as the pages say, and writes down who got what."""

from __future__ import annotations

from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

import pytest

from taskqueue.demo.bundled_site import BundledSite
from taskqueue.demo.page import Site
from taskqueue.demo.webserver import AGENT, read_access


@pytest.fixture
def port(serve: Callable[[Site], int]) -> int:
    return serve(BundledSite())


def get(port: int, target: str, agent: str = AGENT) -> tuple[int, str, bytes]:
    """Status, Location and body."""
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", target, headers={"User-Agent": agent})
    answer = connection.getresponse()
    found = answer.status, answer.headers.get("Location", ""), answer.read()
    connection.close()
    return found


def test_pages_redirects_and_missing_pages_are_answered(port: int) -> None:
    site = BundledSite()

    assert get(port, "/") == (200, "", site.page("/").body)
    assert get(port, "/moved/0") == (301, "/moved/1", b"")
    assert get(port, "/missing/0")[0] == 404


def test_every_get_of_the_crawler_is_written_down_as_it_was_asked_for(port: int, log: Path) -> None:
    get(port, "/")
    get(port, "/search?page=1&lang=en")
    get(port, "/none?")

    assert [seen.target for seen in read_access(log)] == ["/", "/search?page=1&lang=en", "/none?"]


def test_their_times_go_forward(port: int, log: Path) -> None:
    for _ in range(3):
        get(port, "/")

    times = [seen.at for seen in read_access(log)]
    assert times == sorted(times)


def test_a_visitor_with_a_browser_does_not_count(port: int, log: Path) -> None:
    get(port, "/", agent="Browser/1.0")

    assert list(read_access(log)) == []
    assert " visitor /" in log.read_text()


def test_a_log_that_is_not_there_has_no_gets(tmp_path: Path) -> None:
    assert list(read_access(tmp_path / "none")) == []
