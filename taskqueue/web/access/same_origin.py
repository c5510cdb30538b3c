"""Check that a request that changes something comes from our own pages.

Browsers send Origin with such a request, and most send Sec-Fetch-Site (https://www.w3.org/TR/fetch-metadata/). A
request with neither, and without Referer and our cookie, does not come from a browser. A foreign page can make a
browser send a form or a text without asking; it can't send JSON or headers of its own, nor read the CSRF token in our
pages.
"""

from __future__ import annotations

import hmac
from typing import Final

from starlette.datastructures import Headers

from taskqueue.web.access.arrival import Arrival
from taskqueue.web.access.refusals import Refused

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})

CSRF_HEADER: Final = "x-csrf-token"

OF_BROWSERS: Final = ("origin", "sec-fetch-site", "referer", "cookie")

FORM: Final = "application/x-www-form-urlencoded"
OF_FOREIGN_PAGES: Final = frozenset({FORM, "multipart/form-data", "text/plain"})
"""Content types that any page can make a browser send anywhere (https://fetch.spec.whatwg.org/#cors-safelisted)."""


def is_of_browser(headers: Headers) -> bool:
    """Return whether a browser has sent the request."""
    return any(name in headers for name in OF_BROWSERS)


def check_reading(headers: Headers) -> None:
    """Check that no foreign page makes a browser fetch this; following a link is allowed.

    Raises:
        Refused: a foreign page does so.
    """
    if headers.get("sec-fetch-site", "none") in ("same-origin", "none"):
        return
    if headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document":
        return
    raise Refused(403, "a page of another site requests this")


def check_origin(headers: Headers, arrival: Arrival) -> None:
    """Check that a browser's request comes from our own pages.

    Raises:
        Refused: it does not.
    """
    site = headers.get("sec-fetch-site", "same-origin")
    origin = headers.get("origin")
    if site != "same-origin":
        raise Refused(403, "this comes from a page of another site")
    if origin is None and "sec-fetch-site" not in headers:
        raise Refused(403, "a change by a browser needs the header Origin, and this request has none")
    if origin is not None and origin.lower() != f"{arrival.scheme}://{arrival.host}":
        raise Refused(
            403,
            f"Origin {origin} is not {arrival.scheme}://{arrival.host}; a proxy that changes these has to be named by "
            "--trust-proxy, and to say X-Forwarded-Proto and X-Forwarded-Host",
        )


def check_csrf(sent: str, expected: str) -> None:
    """Check that our own page has sent this.

    Raises:
        Refused: the CSRF token is wrong or missing.
    """
    if not expected or not hmac.compare_digest(sent.encode(), expected.encode()):
        raise Refused(403, "the page is from before the last sign-in or restart: load it again (X-CSRF-Token)")


def content_type_of(headers: Headers) -> str:
    """Return the content type without parameters, in lower case."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def check_content_type(headers: Headers, *, is_form: bool) -> None:
    """Check that the content type is not one that a foreign page can make a browser send.

    Args:
        is_form: True if this address takes forms, and nothing else.

    Raises:
        Refused: it is such a type, or is missing.
    """
    found = content_type_of(headers)
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    if is_form:
        if has_body and found != FORM:
            raise Refused(415, f"Content-Type must be {FORM}")
    elif found in OF_FOREIGN_PAGES or (has_body and not found):
        raise Refused(415, f'Content-Type must be application/json, not "{found}"')
