"""Error pages."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from taskqueue.errors import RequestRejected, RequestTimeout
from taskqueue.web.pages.login import lead_to_sign_in, wants_sign_in
from taskqueue.web.services import services_of

TITLES: Final = {401: "Sign in first", 403: "Not allowed", 404: "Not found", 405: "Method not allowed"}

STATUS_OF_CODE: Final = {"forbidden": 403, "full": 429, "unavailable": 503}
"""HTTP status by the daemon's error code; ``unknown-…`` is 404, any other 400."""


async def say_http(request: Request, error: Exception) -> Response:
    """Answer a refusal by the web process itself."""
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.UNAUTHORIZED and wants_sign_in(request):
        return lead_to_sign_in(request)
    title = TITLES.get(error.status_code, "Request failed")
    page = _page(request, error.status_code, title, error.detail)
    page.headers.update(error.headers or {})
    return page


async def say_refused(request: Request, error: Exception) -> Response:
    """Answer a refusal by the daemon."""
    assert isinstance(error, RequestRejected)
    status = 404 if error.code.startswith("unknown-") else STATUS_OF_CODE.get(error.code, 400)
    return _page(request, status, "The daemon refuses", error.reason)


async def say_silent(request: Request, error: Exception) -> Response:
    """Answer that the daemon does not respond."""
    return _page(request, 503, "The daemon does not answer", str(error))


def _page(request: Request, status: int, title: str, why: str) -> Response:
    context: Mapping[str, Any] = {"title": title, "why": why, "live": ""}
    return services_of(request).templates.page(request, "error.html", context, status)


HANDLERS: Final[Mapping[Any, Any]] = {
    HTTPException: say_http,
    RequestRejected: say_refused,
    RequestTimeout: say_silent,
}
