"""The sites that the demo serves, as its crawler sees them."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path

import pytest

from taskqueue import Drop, Task
from taskqueue.demo.crawler import ARCHIVE_SECONDS, crawl
from taskqueue.demo.site import bundled_pages, served
from taskqueue.http.answer import Page
from taskqueue.protocol.fields import Token
from taskqueue.protocol.values import Assignment

Crawl = Callable[[str], list[tuple[str, float | None]]]
"""Function that crawls a target and returns (target, delay) of its new tasks."""


@pytest.fixture
def log() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def crawl_of(log: io.StringIO) -> Iterator[Callable[[Path | None], Crawl]]:
    """Serve a folder, or the bundled site, until the test ends."""
    with ExitStack() as stack:

        def serve(folder: Path | None) -> Crawl:
            base = f"http://127.0.0.1:{stack.enter_context(served(folder, 0, log))}"

            def crawled(target: str) -> list[tuple[str, float | None]]:
                task = Task(Assignment("demo", "id", base + target, Token(1), 60.0))
                return [(new.url.removeprefix(base), new.schedule.delay) for new in crawl(task)]

            return crawled

        yield serve


def test_following_the_links_of_the_bundled_site_finds_exactly_its_pages() -> None:
    pages = bundled_pages()
    found, waiting = {"/"}, ["/"]

    while waiting:
        target = waiting.pop()
        page = pages[target]
        headers = {"content-type": "text/html", "location": page.location}
        urls = Page(f"http://site{target}", page.status, headers, page.body).links(exclude="utm_")
        new = {url.removeprefix("http://site") for url in urls} - found
        found |= new
        waiting += new

    assert found == set(pages)


def test_the_bundled_site_has_557_pages_of_every_kind() -> None:
    pages = bundled_pages()

    statuses = Counter(page.status for page in pages.values())
    assert (sum(statuses.values()), statuses[200], statuses[404]) == (557, 513, 12)
    assert {status for status in statuses if 300 <= status < 400} == {301, 302, 303, 307, 308}
    assert (pages["/moved/0"].location, pages["/moved/1"].location) == ("/moved/1", "/moved/0")


def test_the_crawler_gets_links_redirects_and_missing_pages_and_each_get_is_in_the_log(
    crawl_of: Callable[[Path | None], Crawl], log: io.StringIO
) -> None:
    crawled = crawl_of(None)

    assert ("/archive/0", ARCHIVE_SECONDS) in crawled("/article/0")
    assert crawled("/moved/0") == [("/moved/1", None)]
    with pytest.raises(Drop, match="404 Not Found"):
        crawled("/missing/0")

    lines = [line.split(" ") for line in log.getvalue().splitlines()]
    assert [line[1:] for line in lines] == [["200", "/article/0"], ["301", "/moved/0"], ["404", "/missing/0"]]
    assert [line[0] for line in lines] == sorted((line[0] for line in lines), key=float)


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [("GET", "/topic/3?utm_source=home", 200), ("HEAD", "/", 200), ("HEAD", "/setup.py", 404), ("POST", "/", 501)],
)
def test_a_query_changes_no_page_and_each_method_is_answered(method: str, target: str, status: int) -> None:
    log = io.StringIO()
    with served(None, 0, log) as port, closing(HTTPConnection("127.0.0.1", port)) as connection:
        connection.request(method, target)
        answer = connection.getresponse()
        body = answer.read()

    assert answer.status == status
    assert (b"<h1>Topic 3</h1>" in body) == (method == "GET")
    assert log.getvalue().split(" ", 1)[1] == f"{status} {target}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret.html").write_text("outside")
    root = tmp_path / "pages"
    (root / "deep er").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "index.html").write_text('<a href="one.html">1</a><a href="deep%20er">d</a><a href="notes.txt">t</a>')
    (root / "deep er" / "index.html").write_text('<a href="../one.html?utm_source=deep">1</a><a href="/">home</a>')
    (root / "notes.txt").write_text('<a href="never.html">')
    return root


def test_a_folder_is_a_site(crawl_of: Callable[[Path | None], Crawl], folder: Path) -> None:
    crawled = crawl_of(folder)

    assert crawled("/") == [("/one.html", None), ("/deep%20er", None), ("/notes.txt", None)]
    assert crawled("/deep%20er") == [("/deep%20er/", None)]
    assert crawled("/deep%20er/") == [("/", None)]
    assert crawled("/notes.txt") == []


@pytest.mark.parametrize("target", ["/%2e%2e/secret.html", "/a/%2e%2e/%2e%2e/secret.html", "/empty/", "/%00", "/none"])
def test_what_is_no_page_of_the_folder_is_a_404(
    crawl_of: Callable[[Path | None], Crawl], folder: Path, target: str
) -> None:
    with pytest.raises(Drop, match="404"):
        crawl_of(folder)(target)
