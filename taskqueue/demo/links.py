"""The links of a page of the demo, as canonical urls.

Two urls of the same page must become the same text, since the text determines the taskid. ``canonical`` drops the
fragment and advertisers' parameters (``utm_...``), orders the others, and quotes what a request line can't carry;
applying it twice changes nothing.
"""

from __future__ import annotations

from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

from taskqueue import links
from taskqueue.demo.page import Page

KEPT_IN_PATH = "/%:@!$&'()*+,;=~-._"
"""RFC 3986, section 3.3; the percent sign because what is quoted stays as it is."""


def canonical(url: str) -> str:
    """The canonical form of an absolute http url.

    Raises:
        ValueError: it is none.
    """
    split = urlsplit(url)
    pairs = parse_qsl(split.query, keep_blank_values=True)
    query = urlencode(sorted(pair for pair in pairs if not pair[0].startswith("utm_")))
    path = quote(split.path or "/", safe=KEPT_IN_PATH)
    return SplitResult(split.scheme.lower(), split.netloc.lower(), path, query, "").geturl()


def leads_to(page: Page, url: str) -> list[str]:
    """Canonical urls on the same host that a page links or redirects to, without duplicates."""
    html = page.body if page.status == 200 else b""
    found = links(html, url, headers={"Content-Type": page.content_type, "Location": page.location})
    return list(dict.fromkeys(map(canonical, found)))
