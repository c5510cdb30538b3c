"""The bundled site: a made-up magazine of 557 pages, the same ones each time, with what makes real sites hard.

    /                       links to all topics
    /topic/N                links to its articles and to the next topic: a ring
    /article/N              links to four other articles: cycles; one with #fragment, one with ?utm_...: duplicates
    /search?lang=en&page=N  written with its parameters in either order
    /archive/N              nothing urgent: the crawler comes later
    /moved/N                redirects; some to another redirect, two to each other
    /slow/N                 half a second to one second
    /missing/N              404

All comes from arithmetic on the number of a page, so ``expected`` is a list and not the result of a crawl: a crawler
that loses, repeats or invents a page can't agree with it by sharing a mistake. A duplicate is answered like the page
that it duplicates, as real sites do; it is the crawler's job to know that they are one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from urllib.parse import parse_qsl, urlsplit

from taskqueue.demo.page import Page, Progress, no_progress, not_found

ARTICLES = 440
TOPICS = 20
SEARCHES = 20
MOVED = 32
ARCHIVED = 24
MISSING = 12
SLOW = 8

REDIRECTS = (301, 302, 303, 307, 308)
OTHER_LINKS = ("mailto:editor@lantern.example", "javascript:void(0)", "https://lantern.example/elsewhere", "#top")
"""Links that lead to no page of this site."""

Link = tuple[str, str]
"""(href, text)"""


class BundledSite:
    """The bundled site, in memory."""

    def __init__(self) -> None:
        self._pages = {_key(target): page for target, page in _all_pages()}
        self._expected = {target: page.status for target, page in _all_pages()}

    def page(self, target: str) -> Page:
        return self._pages.get(_key(target)) or not_found(target)

    def expected(self, progress: Progress = no_progress) -> Mapping[str, int]:
        return self._expected


def _key(target: str) -> tuple[str, frozenset[Link]]:
    """A target without what the site ignores: the order of its parameters, and the referrer in them."""
    split = urlsplit(target)
    pairs = parse_qsl(split.query, keep_blank_values=True)
    return split.path, frozenset(pair for pair in pairs if not pair[0].startswith("utm_"))


def _all_pages() -> Iterator[tuple[str, Page]]:
    yield "/", _html("The Lantern", _home_links())
    for n in range(TOPICS):
        yield f"/topic/{n}", _html(f"Topic {n}", _topic_links(n))
    for n in range(ARTICLES):
        yield f"/article/{n}", _html(f"Article {n}", _article_links(n))
    for n in range(SEARCHES):
        yield _search(n), _html(f"Search results, page {n}", _article_ring(n * 22))
    for n in range(ARCHIVED):
        yield f"/archive/{n}", _html(f"From the archive, {n}", _article_ring(n * 18))
    for n in range(SLOW):
        yield f"/slow/{n}", _html(f"Slow page {n}", _article_ring(n), 0.5 + 0.5 * n / (SLOW - 1))
    for n in range(MOVED):
        yield f"/moved/{n}", Page(REDIRECTS[n % len(REDIRECTS)], location=_moved_to(n))
    for n in range(MISSING):
        yield f"/missing/{n}", not_found(f"/missing/{n}")


def _home_links() -> Iterator[Link]:
    for n in range(TOPICS):
        yield f"/topic/{n}", f"Topic {n}"
    for href in OTHER_LINKS:
        yield href, href
    yield "/?utm_source=home", "Home"


def _topic_links(n: int) -> Iterator[Link]:
    yield f"{(n + 1) % TOPICS}", "Next topic"
    for article in range(n, ARTICLES, TOPICS):
        yield f"../article/{article}", f"Article {article}"


def _article_links(n: int) -> Iterator[Link]:
    yield from _article_ring(n)
    yield "#comments", "Comments"
    yield "/", "Home"
    yield _search(n % SEARCHES, swapped=n % 2 == 1), "More like this"
    if n % 14 == 0:
        yield f"/moved/{n // 14}", "As we wrote before"
    if n % 19 == 0:
        yield f"/archive/{n // 19}", "From the archive"
    if n % 37 == 0:
        yield f"/missing/{n // 37}", "A page that is gone"
    if n % 55 == 0:
        yield f"/slow/{n // 55}#chart", "All the figures"


def _article_ring(n: int) -> Iterator[Link]:
    """Four articles, far and near, each linked in another form of url."""
    yield f"/article/{(n + 1) % ARTICLES}", "Next"
    yield f"/article/{(n - 1) % ARTICLES}#comments", "Previous"
    yield f"/article/{(7 * n + 3) % ARTICLES}?utm_source=related&utm_medium=web", "Related"
    yield f"/article/{(31 * n + 11) % ARTICLES}?#intro", "Read on"


def _search(n: int, swapped: bool = False) -> str:
    return f"/search?page={n}&lang=en" if swapped else f"/search?lang=en&page={n}"


def _moved_to(n: int) -> str:
    if n < 2:
        return f"/moved/{1 - n}"
    if n % 8 == 7:
        return f"{n - 1}"
    return f"../article/{13 * n % ARTICLES}#moved"


def _html(title: str, links: Iterable[Link], delay_seconds: float = 0.0) -> Page:
    items = "\n".join(f'  <li><a href="{href.replace("&", "&amp;")}">{text}</a></li>' for href, text in links)
    text = f"<!doctype html>\n<title>{title}</title>\n<h1>{title}</h1>\n<ul>\n{items}\n</ul>\n"
    return Page(HTTPStatus.OK, text.encode(), delay_seconds=delay_seconds)
