"""The application at ``/api/v1``."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from taskqueue.web.access.visitors import root_of
from taskqueue.web.api.decoding import JSON
from taskqueue.web.api.endpoints import routes_of
from taskqueue.web.api.openapi import document
from taskqueue.web.api.operations import OPERATIONS
from taskqueue.web.api.problems import Problem
from taskqueue.web.routes import WebRoute, to_starlette

PLACE: Final = "/api/v1"


class EncodedPaths:
    """Shows the application within the path as it was sent: a slash in a taskid, ``%2F``, separates nothing."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through."""
        raw = scope.get("raw_path") or scope["path"].encode()
        path = raw.decode("latin-1").partition("?")[0]
        await self._app({**scope, "path": path}, receive, send)


async def nothing_here(scope: Scope, receive: Receive, send: Send) -> None:
    """Say that there is no such address."""
    problem = Problem(404, f"nothing is at this address; {PLACE}/openapi.json lists what there is")
    await problem.response()(scope, receive, send)


@cache
def _described() -> dict[str, Any]:
    """It takes a second to make."""
    return document(OPERATIONS)


def description(root: str) -> bytes:
    """The document as JSON, of a web process whose pages are below this path."""
    servers = [{"url": root + PLACE}]
    return json.dumps({**_described(), "servers": servers}, separators=(",", ":")).encode()


def describing() -> WebRoute:
    """The address of the document that describes all others."""

    async def describe(request: Request) -> Response:
        return Response(description(root_of(request)), media_type=JSON)

    return WebRoute("/openapi.json", describe)


def mount() -> Mount:
    """The interface, where it belongs."""
    routes = [to_starlette(describing()), *routes_of(OPERATIONS)]
    mounted = Mount(PLACE, EncodedPaths(Router(routes, redirect_slashes=False, default=nothing_here)))
    # A line end in a taskid does not end the path.
    mounted.path_regex = re.compile(mounted.path_regex.pattern, re.DOTALL)
    return mounted
