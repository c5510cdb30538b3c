"""Sign-in page: a user enters a token, and the browser gets a cookie."""

from __future__ import annotations

import secrets
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs, quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from taskqueue.access.tokens import digest_of
from taskqueue.web.access.access import Access, cookie_of, session_cookie
from taskqueue.web.access.arrival import Arrival
from taskqueue.web.access.refusals import Refused
from taskqueue.web.access.same_origin import check_csrf
from taskqueue.web.access.visitors import root_of, visitor_of
from taskqueue.web.routes import WebRoute
from taskqueue.web.services import services_of

MAX_FORM_BYTES: Final = 8192

NONCE: Final = "-login"
"""Suffix of the name of the cookie that belongs to the sign-in form."""

TRY_AGAIN: Final = "The page is too old, or your browser accepts no cookies: try again."

FROM_ELSEWHERE: Final = '<!doctype html><title>taskqueue</title><meta http-equiv="refresh" content="0">'
"""Page that loads itself again: a browser that follows another site's link sends our cookie only then."""


async def show(request: Request) -> Response:
    """Show the form; known visitors are led on."""
    target = local_path(request.query_params.get("next", "/"))
    if visitor_of(request).role:
        return RedirectResponse(root_of(request) + target, HTTPStatus.SEE_OTHER)
    return _form(request, target)


async def sign_in(request: Request) -> Response:
    """Sign a user in with a token."""
    access = _access_of(request)
    fields = await _fields_of(request)
    target = local_path(fields.get("next", "/"))
    nonce = cookie_of(request, session_cookie(_arrival_of(request)) + NONCE)
    try:
        check_csrf(fields.get("csrf", ""), access.login_csrf(nonce) if nonce else "")
    except Refused:
        return _form(request, target, TRY_AGAIN, HTTPStatus.FORBIDDEN)
    try:
        token = fields.get("token", "").strip()
        await access.user_of(token, _arrival_of(request))
    except Refused as refused:
        return _form(request, target, f"{refused.why[:1].upper()}{refused.why[1:]}.", refused.status)
    response = RedirectResponse(root_of(request) + target, HTTPStatus.SEE_OTHER)
    access.end_session(request, _arrival_of(request))
    _put_cookie(response, _arrival_of(request), "", access.sessions.begin(digest_of(token)))
    _put_cookie(response, _arrival_of(request), NONCE, "")
    return response


async def sign_out(request: Request) -> Response:
    """Sign a user out."""
    fields = await _fields_of(request)
    response = RedirectResponse(f"{root_of(request)}/login", HTTPStatus.SEE_OTHER)
    try:
        check_csrf(fields.get("csrf", ""), visitor_of(request).csrf)
    except Refused:
        return RedirectResponse(f"{root_of(request)}/", HTTPStatus.SEE_OTHER)
    _access_of(request).end_session(request, _arrival_of(request))
    _put_cookie(response, _arrival_of(request), "", "")
    return response


def wants_sign_in(request: Request) -> bool:
    """Return whether a browser asks, which can be led to the sign-in page, rather than a program."""
    return request.method == "GET" and "text/html" in request.headers.get("accept", "")


def lead_to_sign_in(request: Request) -> Response:
    """Redirect to the sign-in page, and back from there."""
    if request.headers.get("sec-fetch-site") == "cross-site":
        return HTMLResponse(FROM_ELSEWHERE)
    path, query = (request.scope[part].decode("latin-1") for part in ("raw_path", "query_string"))
    target = quote(f"{path}?{query}" if query else path, safe="")
    return RedirectResponse(f"{root_of(request)}/login?next={target}", HTTPStatus.SEE_OTHER)


def local_path(written: str) -> str:
    """Return a path of ours; "/" if it leads elsewhere: browsers read ``//host`` and ``/\\host`` as other hosts."""
    is_plain = written.isascii() and written.isprintable() and "\\" not in written
    return written if is_plain and written.startswith("/") and not written.startswith("//") else "/"


def _form(request: Request, target: str, trouble: str = "", status: int = HTTPStatus.OK) -> Response:
    access, arrival = _access_of(request), _arrival_of(request)
    nonce = cookie_of(request, session_cookie(arrival) + NONCE) or secrets.token_urlsafe(16)
    context = {"live": "", "csrf": access.login_csrf(nonce), "next": target, "trouble": trouble}
    response = services_of(request).templates.page(request, "login.html", context, status)
    _put_cookie(response, arrival, NONCE, nonce)
    return response


def _put_cookie(response: Response, arrival: Arrival, suffix: str, value: str) -> None:
    """Set a cookie that scripts can't read and other sites' pages don't send; without a value, remove it."""
    response.set_cookie(
        session_cookie(arrival) + suffix,
        value,
        max_age=None if value else 0,
        path=arrival.root or "/",
        secure=arrival.scheme == "https",
        httponly=True,
        samesite="strict",
    )


async def _fields_of(request: Request) -> dict[str, str]:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_FORM_BYTES:
            return {}
    try:
        fields = parse_qs(body.decode("ascii", "replace"), max_num_fields=8)
    except ValueError:  # too many
        return {}
    return {name: values[0] for name, values in fields.items()}


def _access_of(request: Request) -> Access:
    access: Access = request.app.state.access
    return access


def _arrival_of(request: Request) -> Arrival:
    arrival: Arrival = request.state.arrival
    return arrival


ROUTES: Final[tuple[WebRoute, ...]] = (
    WebRoute("/login", show, None),
    WebRoute("/login", sign_in, None, ("POST",)),
    WebRoute("/logout", sign_out, None, ("POST",)),
)
