"""What a page says: its bytes as text, and where it leads to, which is ``taskqueue.links``.

    headers ──► Location ────────────────┐
    html ──► <base>, <a>, <area>, … ─────┴──► absolute http(s) urls ──► of the site ──► include, exclude ──► each once

Text:

    byte order mark ──► charset of the header ──► of the page ──► UTF-8, if that is what it is ──► windows-1252

The order is that of browsers (https://html.spec.whatwg.org/#determining-the-character-encoding). A page that says no
charset is read so that no letter is lost: no byte of it becomes U+FFFD, which would lead to pages that don't exist.

Links: the parser is that of ``lxml``, which libxml2 and its fuzzers have hardened for years, fed without building a
tree: in one pass over the page, in memory that does not depend on how deep it nests. Pages are made by strangers, and
parsers that build a tree, or the one of the standard library, take minutes over some that a megabyte is enough for
(docs/why/decisions/0004-html-parser.md).
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol, TypedDict

from taskqueue.client.web_urls import SAMES, Same, WebUrl, belongs, web_url
from taskqueue.protocol.fields import MAX_URL_CHARS

# ------------------------------------------------------------------------------------------------ text

ENCODING: Final = re.compile(
    r"utf-(8|16|32)(-[bl]e)?|cp\d{3,4}|iso8859-\d+|koi8-[ru]|mac-(roman|cyrillic)|"
    r"big5hkscs|gb18030|gbk|gb2312|euc_(jp|kr)|shift_jis|iso2022_jp|ascii"
)
"""Python's codecs for what pages are written in, by the Encoding Standard (https://encoding.spec.whatwg.org). Some of
the others are no texts, such as zlib; some take a time that grows with the square of the page, such as punycode."""

WIDE: Final = ("utf-16", "utf-32")
"""A page that can be read before its encoding is known is not written in these, whatever it says."""

WINDOWS_1252: Final = "cp1252"

NOT_ASCII: Final = bytes(range(0x80, 0x100))

LETTERS: Final = {
    byte: bytes([byte]).decode(WINDOWS_1252) for byte in range(0x80, 0xA0) if byte not in b"\x81\x8d\x8f\x90\x9d"
}
"""Letters of windows-1252 where Latin-1 has none. Five bytes are no letters in either, and are left as they are."""

BY_BYTE: Final = "taskqueue-windows-1252"
"""Error handler of codecs: bytes that can't be decoded are read as windows-1252, one by one."""


class PageText(NamedTuple):
    """A page's text, and the encoding that it was read in, by Python's name."""

    text: str
    encoding: str


def page_text(body: bytes, content_type: str = "") -> PageText:
    """Read a page; nothing that it could hold raises an error."""
    from w3lib import encoding as web  # Not above: 50 ms, which most programs need not spend.

    by_mark, mark = web.read_bom(body)
    said = by_mark or web.http_content_type_encoding(content_type) or _declared(body)
    if not said:
        return _guessed(body)
    encoding = said if ENCODING.fullmatch(said) else "utf-8"
    rest = body[len(mark or b"") :]
    return PageText(
        rest.decode(encoding, BY_BYTE) if encoding == WINDOWS_1252 else web.to_unicode(rest, encoding), encoding
    )


def _declared(body: bytes) -> str:
    """What the page itself says."""
    from w3lib.encoding import html_body_declared_encoding

    said = html_body_declared_encoding(body) or ""
    return "" if said.startswith(WIDE) else said


def _guessed(body: bytes) -> PageText:
    """The text of a page that says nothing. A few bad bytes, such as a letter cut in two, don't make it another one."""
    try:
        return PageText(body.decode(), "utf-8")
    except UnicodeDecodeError:
        encoding = "utf-8" if _is_mostly_utf_8(body) else WINDOWS_1252
        return PageText(body.decode(encoding, BY_BYTE), encoding)


def _is_mostly_utf_8(body: bytes) -> bool:
    text = body.decode(errors="replace")
    bad = text.count("\ufffd")
    return len(text) - len(body.translate(None, NOT_ASCII)) > 2 * bad


def _by_byte(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return error.object[error.start : error.end].decode("latin-1").translate(LETTERS), error.end


codecs.register_error(BY_BYTE, _by_byte)

# ------------------------------------------------------------------------------------------------ markup

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


# ------------------------------------------------------------------------------------------------ links

Pattern = str | re.Pattern[str]


class Headers(Protocol):
    """Of an answer: those of every client have them, dicts too."""

    def items(self) -> Iterable[tuple[str, str]]:
        """Names, in any case, and values."""


class LinkOptions(TypedDict, total=False):
    """Which links of a page count; ``links`` explains them."""

    same: Same
    include: Pattern | Iterable[Pattern]
    exclude: Pattern | Iterable[Pattern]
    nofollow: bool


def links(
    html: str | bytes,
    base: str,
    *,
    headers: Headers | None = None,
    same: Same = "host",
    include: Pattern | Iterable[Pattern] = (),
    exclude: Pattern | Iterable[Pattern] = (),
    nofollow: bool = False,
) -> list[str]:
    """The pages that a page leads to, for a handler to return: absolute http and https urls, each once, in its order.

    They are written in one way: scheme and host in lower case, without fragment, user and password, or a port that goes
    without saying; what can't stand in a request is percent-encoded. Links are those of ``a``, ``area``, ``frame``,
    ``iframe`` and of a ``meta`` refresh; a ``base`` element is minded. Everything else (``mailto:``, ``javascript:``,
    ``file:``, …) is left out, and so are the page itself, urls of more than 8192 characters, and what comes after the
    first 10,000 links of a page. What robots.txt says is not looked at. No page raises an error. A link costs some
    40 µs, and the first use 0.1 s of importing.

    Args:
        html: the page. Bytes are decoded as its byte order mark, the headers or the page itself say. If they say
            nothing: as UTF-8, or as windows-1252 if they are no UTF-8.
        base: the page's own url, http or https.
        headers: of the answer, from whatever client: ``Location`` is a link like others, so that redirects need not be
            followed blindly; ``Content-Type`` tells the encoding, and that there are no links in what is no HTML.
        same: which links count. "host": those with the host and port of ``base``; http and https are one. "domain":
            those with its registered domain, such as example.co.uk, by the public suffix list that comes with the
            package ``publicsuffixlist``; addresses, and names without a dot, have none and must be equal. "any": all.
        include: regular expressions, of which one must be found in a url; none: all urls are taken.
        exclude: regular expressions, of which none may be found in it.
        nofollow: leave out what the page asks not to be followed: links with ``rel="nofollow"``, and all of its links
            if ``<meta name="robots">`` or the header ``X-Robots-Tag`` says ``nofollow`` or ``none`` to all robots.

    Raises:
        ValueError: ``base`` is no http url, or ``same`` is none of the three.
        TypeError: the page is neither str nor bytes.
        re.error: a pattern is no regular expression.
    """
    page = web_url(base)
    if page is None:
        raise ValueError(f"base: expected the page's absolute http or https url, not {base!r}")
    if same not in SAMES:
        raise ValueError(f"same: expected one of {', '.join(SAMES)}, not {same!r}")
    wanted, unwanted = _compiled(include), _compiled(exclude)
    found: dict[str, None] = {}
    said = {name.lower(): value for name, value in headers.items()} if headers else {}
    for url in _urls(html, page, said, nofollow):
        if url.text in found or url.text == page.text or not belongs(url, page, same):
            continue
        if (not wanted or _matches(wanted, url.text)) and not _matches(unwanted, url.text):
            found[url.text] = None
    return list(found)[:MAX_HREFS]


def _urls(html: str | bytes, page: WebUrl, headers: Mapping[str, str], nofollow: bool) -> Iterator[WebUrl]:
    """All that the page leads to that can be fetched."""
    if not isinstance(html, str | bytes):
        raise TypeError(f"html: expected str or bytes, got {type(html).__name__}")
    if (location := headers.get("location")) and (target := web_url(location, page.text)):
        yield target
    content_type = headers.get("content-type") or ""
    if not is_html(content_type) or (nofollow and forbids_following(headers.get("x-robots-tag") or "")):
        return
    markup = read(html, content_type, nofollow=nofollow)
    base = web_url(markup.base, page.text) or page
    for href in markup.hrefs:
        if (url := web_url(href, base.text, markup.encoding)) is not None:
            yield url


def _compiled(patterns: Pattern | Iterable[Pattern]) -> list[re.Pattern[str]]:
    return [re.compile(each) for each in ([patterns] if isinstance(patterns, str | re.Pattern) else patterns)]


def _matches(patterns: list[re.Pattern[str]], url: str) -> bool:
    return any(each.search(url) for each in patterns)
