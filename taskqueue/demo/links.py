"""Links in a page, and the one way to write a url.

Two urls that mean the same page must become the same text, since the text decides the taskid. ``canonical`` drops the
fragment and advertisers' parameters (``utm_...``), orders the others, and quotes what a request line can't carry;
doing it twice changes nothing.
"""

from __future__ import annotations

from contextlib import suppress
from html.parser import HTMLParser
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urljoin, urlsplit

from taskqueue.demo.page import Page

LINKING = {"a": "href", "area": "href", "frame": "src", "iframe": "src"}
"""Which attribute of which element leads to a page."""

KEPT_IN_PATH = "/%:@!$&'()*+,;=~-._"
"""RFC 3986, section 3.3; the percent sign because what is quoted stays as it is."""


def canonical(url: str) -> str:
    """Write an absolute http url in its one way.

    Raises:
        ValueError: it is not a url.
    """
    split = urlsplit(url)
    pairs = parse_qsl(split.query, keep_blank_values=True)
    query = urlencode(sorted(pair for pair in pairs if not pair[0].startswith("utm_")))
    path = quote(split.path or "/", safe=KEPT_IN_PATH)
    return SplitResult(split.scheme.lower(), split.netloc.lower(), path, query, "").geturl()


def leads_to(page: Page, url: str) -> list[str]:
    """Canonical urls on the same host that an answer leads to, each once: where it redirects to, or its links."""
    if page.location:
        return _on_host([page.location], url, url)
    if page.status == 200 and page.content_type.startswith("text/html"):
        return links(page.body.decode(errors="replace"), url)
    return []


def links(html: str, url: str) -> list[str]:
    """Canonical urls that a page links to on its own host, each once, in the order of the page."""
    finder = _Finder(url)
    # The parser gives up on some malformed declarations by an assertion; what stands before them counts.
    with suppress(AssertionError):
        finder.feed(html)
        finder.close()
    return _on_host(finder.hrefs, finder.base, url)


def _on_host(hrefs: list[str], base: str, url: str) -> list[str]:
    found = (_absolute(href, base) for href in hrefs)
    host = urlsplit(url).netloc
    return list(dict.fromkeys(link for link in found if link and urlsplit(link).netloc == host))


def _absolute(href: str, base: str) -> str:
    """The canonical url of a link, or "" if nothing can be fetched there: pages hold all kinds of nonsense."""
    try:
        link = canonical(urljoin(base, href.strip()))
    except ValueError:
        return ""
    return link if link.startswith(("http://", "https://")) else ""


class _Finder(HTMLParser):
    """Collects links as they are written, and the base that they are relative to."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self.base = base
        self.hrefs: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "base":
            self.base = urljoin(self.base, values.get("href") or "")
        elif href := values.get(LINKING.get(tag, "")):
            self.hrefs.append(href)
