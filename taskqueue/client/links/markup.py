"""What a page of HTML says of other pages: its links as they are written, and what they are relative to.

The parser is that of ``lxml``, which libxml2 and its fuzzers have hardened for years, fed without building a tree: in
one pass over the page, in memory that does not depend on how deep it nests. Pages are made by strangers, and parsers
that build a tree, or the one of the standard library, take minutes over some that a megabyte is enough for
(docs/decisions/0004-html-parser.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from taskqueue.client.links.page_text import WIDE, page_text
from taskqueue.protocol.fields import MAX_URL_CHARS

MAX_HREFS: Final = 10_000
"""Different links of a page that are looked at: pages are made by strangers. At some 40 µs each, a page of nothing but
links costs less than half a second."""

LINKING: Final = {"a": "href", "area": "href", "frame": "src", "iframe": "src"}
"""Which attribute of which element leads to a page."""

HTML_TYPES: Final = ("text/html", "application/xhtml+xml")

NOFOLLOW: Final = frozenset(("nofollow", "none"))
"""Directives for robots that ask to follow no link of a page."""

REFRESH: Final = re.compile(
    r"\s*[\d.]+\s*[;,]?\s*(?:url\s*=\s*)?(?P<quote>[\"']?)(?P<url>.*)", re.IGNORECASE | re.DOTALL
)
"""The content of ``<meta http-equiv="refresh">``, such as ``0; url=next.html``."""


class Markup(NamedTuple):
    """What a page says.

    Attributes:
        encoding: in which its queries are sent: its own, or UTF-8 if that is one of the wide ones.
        base: of its ``<base>``, as it is written; "" if it has none.
        hrefs: as they are written, each once, in order; at most MAX_HREFS, and none that is too long for a url.
    """

    encoding: str
    base: str
    hrefs: list[str]


def is_html(content_type: str) -> bool:
    """Whether a Content-Type says so; one that says nothing does."""
    return content_type.partition(";")[0].strip().lower() in ("", *HTML_TYPES)


def read(html: str | bytes, content_type: str = "", *, nofollow: bool = False) -> Markup:
    """Read a page; nothing that it could hold raises an error.

    Args:
        nofollow: leave out the links that the page asks not to be followed: those with ``rel="nofollow"``, and all if
            a ``<meta name="robots">`` says so.
    """
    from lxml import etree  # Not above: 50 ms, which most programs need not spend.

    text, encoding = (html, "utf-8") if isinstance(html, str) else page_text(html, content_type)
    target = _Target(nofollow)
    parser = etree.HTMLParser(target=target, encoding="utf-8")
    parser.feed(text.encode(errors="replace"))
    parser.close()
    return Markup("utf-8" if encoding.startswith(WIDE) else encoding, target.base or "", list(target.hrefs))


def forbids_following(directives: str) -> bool:
    """Whether the content of ``<meta name="robots">``, or of the header X-Robots-Tag, asks to follow no link."""
    return not NOFOLLOW.isdisjoint(each.strip().lower() for each in directives.split(","))


class _Target:
    """What lxml calls for each element."""

    def __init__(self, nofollow: bool) -> None:
        self._nofollow = nofollow
        self._takes_none = False
        self.base: str | None = None
        self.hrefs: dict[str, None] = {}

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if (name := LINKING.get(tag)) is not None:
            if not (self._nofollow and "nofollow" in attributes.get("rel", "").lower().split()):
                self._note(attributes.get(name))
        elif tag == "base" and self.base is None:
            self.base = attributes.get("href")
        elif tag == "meta" and attributes.get("http-equiv", "").strip().lower() == "refresh":
            self._note(_refreshed(attributes.get("content", "")))
        elif self._nofollow and tag == "meta" and attributes.get("name", "").strip().lower() == "robots":
            self._takes_none |= forbids_following(attributes.get("content", ""))

    def close(self) -> None:
        """The page ends; what it says of all its links may come after some of them."""
        if self._takes_none:
            self.hrefs.clear()

    def _note(self, href: str | None) -> None:
        if href is not None and len(href) <= MAX_URL_CHARS and len(self.hrefs) < MAX_HREFS:
            self.hrefs[href] = None


def _refreshed(content: str) -> str | None:
    found = REFRESH.fullmatch(content)
    if found is None or not found["url"]:
        return None
    return found["url"].partition(found["quote"])[0] if found["quote"] else found["url"]
