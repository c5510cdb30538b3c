"""Where a page leads to: ``taskqueue.links``.

headers ──► Location ────────────────┐
html ──► <base>, <a>, <area>, … ─────┴──► absolute http(s) urls ──► of the same site ──► include, exclude ──► each once
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, TypedDict

from taskqueue.client.links.markup import MAX_HREFS, forbids_following, is_html, read
from taskqueue.client.links.web_urls import SAMES, Same, WebUrl, belongs, web_url

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
