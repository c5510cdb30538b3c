"""Text and links of pages; ``taskqueue.links`` is here.

    headers ──► Location ────────────────┐
    html ──► <base>, <a>, <area>, … ─────┴──► absolute http(s) URLs ──► of the site ──► include, exclude ──► each once

Text:

    byte order mark ──► charset of the header ──► of the page ──► UTF-8, if it is valid ──► windows-1252

The order is that of browsers (https://html.spec.whatwg.org/#determining-the-character-encoding). A page without a
charset is read so that no letter is lost: no byte of it becomes U+FFFD, which would lead to pages that don't exist.

Links: the parser is that of ``lxml``, which libxml2 and its fuzzers have hardened for years, fed without building a
tree: in one pass over the page, in memory that does not depend on how deep it nests. Pages are made by strangers, and
parsers that build a tree, or the one of the standard library, take minutes over some pages of a megabyte
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
"""Python's codecs for encodings of pages, by the Encoding Standard (https://encoding.spec.whatwg.org). Some other
codecs are not for text, such as zlib; some take a time that grows with the square of the page, such as punycode.
"""

WIDE: Final = ("utf-16", "utf-32")
"""Encodings that a page can't have if its declaration can be read before its encoding is known."""

WINDOWS_1252: Final = "cp1252"

NOT_ASCII: Final = bytes(range(0x80, 0x100))

LETTERS: Final = {
    byte: bytes([byte]).decode(WINDOWS_1252) for byte in range(0x80, 0xA0) if byte not in b"\x81\x8d\x8f\x90\x9d"
}
"""Letters of windows-1252 where Latin-1 has none. Five bytes are letters in neither, and stay as they are."""

BY_BYTE: Final = "taskqueue-windows-1252"
"""Error handler of codecs: bytes that can't be decoded are read as windows-1252, one by one."""


class PageText(NamedTuple):
    """A page's text, and its encoding, by Python's name."""

    text: str
    encoding: str


def page_text(body: bytes, content_type: str = "") -> PageText:
    """Decode a page; no content of it raises an error."""
    from w3lib import encoding as web  # Not above: it takes 50 ms, which most programs don't need to spend.

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
    """Return the encoding that the page itself declares."""
    from w3lib.encoding import html_body_declared_encoding

    said = html_body_declared_encoding(body) or ""
    return "" if said.startswith(WIDE) else said


def _guessed(body: bytes) -> PageText:
    """Decode a page that declares nothing. A few bad bytes, such as a letter cut in two, don't change its encoding."""
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
"""Different links of a page that are read: pages are made by strangers. At some 40 µs each, a page of nothing but links
costs less than half a second.
"""

LINKING: Final = {"a": "href", "area": "href", "frame": "src", "iframe": "src"}
"""Elements with a link to a page, and the attribute that has it."""

HTML_TYPES: Final = ("text/html", "application/xhtml+xml")

NOFOLLOW: Final = frozenset(("nofollow", "none"))
"""Directives for robots that ask to follow no link of a page."""

REFRESH: Final = re.compile(
    r"\s*[\d.]+\s*[;,]?\s*(?:url\s*=\s*)?(?P<quote>[\"']?)(?P<url>.*)", re.IGNORECASE | re.DOTALL
)
"""Content of ``<meta http-equiv="refresh">``, such as ``0; url=next.html``."""


class Markup(NamedTuple):
    """Links and base of a page.

    Attributes:
        encoding: encoding of its queries: its own, or UTF-8 if that is a wide one.
        base: href of its ``<base>``, as written; "" if it has none.
        hrefs: its links as written, each once, in order; at most MAX_HREFS, and none that is too long for a URL.
    """

    encoding: str
    base: str
    hrefs: list[str]


def is_html(content_type: str) -> bool:
    """Return True if a Content-Type means HTML, or is empty."""
    return content_type.partition(";")[0].strip().lower() in ("", *HTML_TYPES)


def read(html: str | bytes, content_type: str = "", *, nofollow: bool = False) -> Markup:
    """Read the links of a page; no content of it raises an error.

    Args:
        nofollow: leave out links that the page asks not to follow: those with ``rel="nofollow"``, and all if a ``<meta
            name="robots">`` says so.
    """
    from lxml import etree  # Not above: it takes 50 ms, which most programs don't need to spend.

    text, encoding = (html, "utf-8") if isinstance(html, str) else page_text(html, content_type)
    target = _Target(nofollow)
    parser = etree.HTMLParser(target=target, encoding="utf-8")
    parser.feed(text.encode(errors="replace"))
    parser.close()
    return Markup("utf-8" if encoding.startswith(WIDE) else encoding, target.base or "", list(target.hrefs))


def forbids_following(directives: str) -> bool:
    """Return True if robots directives of a ``<meta>`` or a header X-Robots-Tag ask to follow no link."""
    return not NOFOLLOW.isdisjoint(each.strip().lower() for each in directives.split(","))


class _Target:
    """Parser target that lxml calls for each element."""

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
        """End the page; its robots directive may come after some of its links."""
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
    """Headers of an answer, from any http library, or a dict."""

    def items(self) -> Iterable[tuple[str, str]]:
        """Return pairs of name (in any case) and value."""


class LinkOptions(TypedDict, total=False):
    """Options of ``links``, which explains them."""

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
    """Return the URLs that a page links to, absolute http and https URLs, each once, in page order.

    A handler may return them as new tasks.

    URLs are normalised: scheme and host in lower case, without fragment, user, password and default port; forbidden
    characters are percent-encoded. Links are those of ``a``, ``area``, ``frame``, ``iframe`` and of a ``meta`` refresh;
    a ``base`` element is respected. Everything else (``mailto:``, ``javascript:``, ``file:``, …) is left out, and so
    are the page itself, URLs of more than 8192 characters, and all links after the first 10,000. robots.txt is not
    consulted. No page raises an error. A link costs some 40 µs, and the first use 0.1 s of importing.

    Args:
        html: the page. Bytes are decoded by their byte order mark, the headers or the page's own declaration; without
            any, as UTF-8, or as windows-1252 if they are not UTF-8.
        base: the page's own URL, http or https.
        headers: headers of the answer, from any client: ``Location`` is a link like others, so that redirects need not
            be followed blindly; ``Content-Type`` gives the encoding, and a page that is not HTML has no links.
        same: links to return. "host": those with the host and port of ``base``; http and https are one. "domain": those
            with its registered domain, such as example.co.uk, by the public suffix list of the package
            ``publicsuffixlist``; addresses, and names without a dot, have none and must be equal. "any": all.
        include: regular expressions, of which one must be found in a URL; none: all URLs.
        exclude: regular expressions, of which none may be found in a URL.
        nofollow: leave out links that the page asks not to follow: those with ``rel="nofollow"``, and all of them if
            ``<meta name="robots">`` or the header ``X-Robots-Tag`` says ``nofollow`` or ``none`` to all robots.

    Raises:
        ValueError: ``base`` is not an http URL, or ``same`` is none of the three.
        TypeError: the page is neither str nor bytes.
        re.error: a pattern is not a regular expression.
    """
    page = web_url(base)
    if page is None:
        raise ValueError(f"base: expected the page's absolute http or https URL, not {base!r}")
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
    """Iterate over all links of the page that can be fetched."""
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
