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

from taskqueue.protocol.fields import MAX_URL_CHARS

MAX_HREFS: Final = 10_000
"""Different links of a page that are looked at: pages are made by strangers. At some 40 µs each, a page of nothing but
links costs less than half a second."""

LINKING: Final = {"a": "href", "area": "href", "frame": "src", "iframe": "src"}
"""Which attribute of which element leads to a page."""

HTML_TYPES: Final = ("text/html", "application/xhtml+xml")

REFRESH: Final = re.compile(
    r"\s*[\d.]+\s*[;,]?\s*(?:url\s*=\s*)?(?P<quote>[\"']?)(?P<url>.*)", re.IGNORECASE | re.DOTALL
)
"""The content of ``<meta http-equiv="refresh">``, such as ``0; url=next.html``."""

ENCODING: Final = re.compile(
    r"utf-(8|16|32)(-[bl]e)?|cp\d{3,4}|iso8859-\d+|koi8-[ru]|mac-(roman|cyrillic)|"
    r"big5hkscs|gb18030|gbk|gb2312|euc_(jp|kr)|shift_jis|iso2022_jp|ascii"
)
"""Python's codecs for what pages are written in, by the Encoding Standard (https://encoding.spec.whatwg.org). Some of
the others are no texts, such as zlib; some take a time that grows with the square of the page, such as punycode."""

WIDE: Final = ("utf-16", "utf-32")
"""A page that can be read before its encoding is known is not written in these, whatever it says."""


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


def read(html: str | bytes, content_type: str = "") -> Markup:
    """Read a page; nothing that it could hold raises an error."""
    from lxml import etree  # Not above: 50 ms, which most programs need not spend.

    encoding, text = ("utf-8", html) if isinstance(html, str) else _decoded(html, content_type)
    target = _Target()
    parser = etree.HTMLParser(target=target, encoding="utf-8")
    parser.feed(text.encode(errors="replace"))
    parser.close()
    return Markup(encoding, target.base or "", list(target.hrefs))


def _decoded(html: bytes, content_type: str) -> tuple[str, str]:
    """Encoding of queries, and the text: by the byte order mark, else by the header, else by the page, else UTF-8."""
    from w3lib import encoding as web

    by_mark, mark = web.read_bom(html)
    said = by_mark or web.http_content_type_encoding(content_type) or _declared(html)
    encoding = said if ENCODING.fullmatch(said) else "utf-8"
    text = web.to_unicode(html[len(mark or b"") :], encoding)
    return "utf-8" if encoding.startswith(WIDE) else encoding, text


def _declared(html: bytes) -> str:
    """What the page itself says."""
    from w3lib.encoding import html_body_declared_encoding

    said = html_body_declared_encoding(html) or ""
    return "" if said.startswith(WIDE) else said


class _Target:
    """What lxml calls for each element."""

    def __init__(self) -> None:
        self.base: str | None = None
        self.hrefs: dict[str, None] = {}

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if (name := LINKING.get(tag)) is not None:
            self._note(attributes.get(name))
        elif tag == "base" and self.base is None:
            self.base = attributes.get("href")
        elif tag == "meta" and attributes.get("http-equiv", "").strip().lower() == "refresh":
            self._note(_refreshed(attributes.get("content", "")))

    def close(self) -> None:
        """The page ends."""

    def _note(self, href: str | None) -> None:
        if href is not None and len(href) <= MAX_URL_CHARS and len(self.hrefs) < MAX_HREFS:
            self.hrefs[href] = None


def _refreshed(content: str) -> str | None:
    found = REFRESH.fullmatch(content)
    if found is None or not found["url"]:
        return None
    return found["url"].partition(found["quote"])[0] if found["quote"] else found["url"]
