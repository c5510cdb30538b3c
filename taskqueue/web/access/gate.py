"""Gate that every request passes first, and that adds headers for browsers to every response.

    names ──► framing ──► visitor  ──► same origin, CSRF, content type (changes)  ──► the application
      421  400, 414, 431   401, 429      403, 415

Routes define what a visitor may do: see ``routes``. The headers define what a browser may do with a response: which
scripts it runs, where it may be embedded, whether it is cached.
"""

from __future__ import annotations

import logging
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from taskqueue.web.access.access import STRANGER, Access
from taskqueue.web.access.arrival import Arrival, arrival_of, below
from taskqueue.web.access.crowd import KNOWN
from taskqueue.web.access.refusals import Refused, answer_to
from taskqueue.web.access.same_origin import (
    CSRF_HEADER,
    SAFE_METHODS,
    check_content_type,
    check_csrf,
    check_origin,
    check_reading,
    is_of_browser,
)
from taskqueue.web.access.visitors import Visitor

log = logging.getLogger("taskqueue.web")

FORMS: Final = frozenset({"/login", "/logout"})
"""Addresses that take forms; they check the CSRF token in the form themselves."""

FILES: Final = "/static/"

UNASKED: Final = frozenset({"/healthz"})
"""Addresses that need no visitor, so that they are answered without the daemon; files are others."""

MAX_HEADER_BYTES: Final = 32_768
MAX_TARGET_BYTES: Final = 16_384
"""Longest address with its query, in bytes."""


class Gate:
    """ASGI middleware: sets ``request.state.visitor`` and ``request.state.arrival``, refuses requests, adds headers."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        path: str = scope["path"]
        request = HTTPConnection(scope)
        try:
            arrival = arrival_of(request, self._access.trusted, self._access.root)
            scope = below(scope, arrival.root)
            path = scope["path"]
            self._access.hosts.check(arrival.host)
            _check_framing(request)
            if path.startswith(FILES) and not path.isprintable():  # not a file name, and Starlette fails on NUL
                raise Refused(404, "nothing is here")
            visitor = STRANGER if _is_unasked(path) else await self._access.identify(request, arrival)
            if scope["method"] in SAFE_METHODS:
                check_reading(request.headers)
            else:
                _check_change(request.headers, arrival, visitor, path)
        except Refused as refused:
            await answer_to(refused, path)(scope, receive, with_headers(send, is_kept=path.startswith(FILES)))
            return
        scope["scheme"] = arrival.scheme  # scheme of redirects
        state = scope.setdefault("state", {})
        state.update(visitor=visitor, arrival=arrival)
        if visitor.role and KNOWN in state:
            state[KNOWN]()
        await self._pass(scope, receive, with_headers(send, is_kept=path.startswith(FILES)))

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def sending(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except ClientDisconnect:
            return
        except Exception:
            # Bugs of endpoints end here: each costs one request, and the client learns nothing of it.
            log.exception("web-bug path=%s", scope["path"])
            if has_begun:
                raise
            broken = Refused(500, "this is a bug; the log of the web process has it")
            await answer_to(broken, scope["path"])(scope, receive, send)


def _is_unasked(path: str) -> bool:
    return path in UNASKED or path.startswith(FILES)


def _check_framing(request: HTTPConnection) -> None:
    """Refuse a length given in two ways: a proxy before us may have used the other (RFC 9112, section 6.1)."""
    headers = request.headers
    if sum(len(name) + len(value) for name, value in headers.raw) > MAX_HEADER_BYTES:
        raise Refused(431, f"the header has more than {MAX_HEADER_BYTES} bytes")
    if len(request.scope["raw_path"]) + len(request.scope["query_string"]) > MAX_TARGET_BYTES:
        raise Refused(414, f"the address has more than {MAX_TARGET_BYTES} bytes")
    if "transfer-encoding" in headers and "content-length" in headers:
        raise Refused(400, "a request has Content-Length or Transfer-Encoding, not both")


def _check_change(headers: Headers, arrival: Arrival, visitor: Visitor, path: str) -> None:
    is_form = path in FORMS
    check_content_type(headers, is_form=is_form)
    if not is_of_browser(headers):
        return
    check_origin(headers, arrival)
    # Requests with a token have no csrf, and no foreign page could send one; a stranger may do nothing anyway.
    if not is_form and visitor.csrf:
        check_csrf(headers.get(CSRF_HEADER, ""), visitor.csrf)


# ------------------------------------------------------------------------------------------------- headers of responses

CONTENT_SECURITY_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)

HEADERS: Final = (
    ("Content-Security-Policy", CONTENT_SECURITY_POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    # Other sites learn nothing of our addresses. With no-referrer, browsers send "Origin: null" from our own forms.
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"),
)

KEPT: Final = "no-cache"
"""Cache-Control of files that are revalidated, so that no browser runs the scripts of an older version."""

NOT_KEPT: Final = "no-store"


def with_headers(send: Send, *, is_kept: bool) -> Send:
    """Wrap ``send`` to add these headers.

    Args:
        is_kept: True if a browser may cache the response.
    """

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS:
                headers[name] = value
            headers["Cache-Control"] = KEPT if is_kept else NOT_KEPT
        await send(message)

    return sending
