"""Application at ``/api/v1``: all operations, and the answers of each address; see ``docs/reference/http.md``.

request ──► allowed? ─► Decoding ──► daemon ──► JSON, and the address of the next page
              └──────────┴────────────┴──────► problem+json
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Mount, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from taskqueue.errors import TaskQueueError
from taskqueue.web.access.admission import Admitted
from taskqueue.web.access.visitors import root_of
from taskqueue.web.api import daemon, exports, fetchers, flows, insight, operations, projects, slots, tasks
from taskqueue.web.api.answering import answering
from taskqueue.web.api.decoding import JSON
from taskqueue.web.api.http_operation import Operation
from taskqueue.web.api.openapi import document
from taskqueue.web.api.problems import Problem, problem_of
from taskqueue.web.routes import WebRoute, to_starlette

OPERATIONS: Final[tuple[Operation, ...]] = (
    *tasks.OPERATIONS,
    *projects.OPERATIONS,
    *exports.OPERATIONS,
    *fetchers.OPERATIONS,
    *slots.OPERATIONS,
    *flows.OPERATIONS,
    *operations.OPERATIONS,
    *insight.OPERATIONS,
    *daemon.OPERATIONS,
)

PLACE: Final = "/api/v1"


class EncodedPaths:
    """ASGI middleware that keeps the path as it was sent: a slash in a taskid, ``%2F``, separates nothing."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its raw path."""
        raw = scope.get("raw_path") or scope["path"].encode()
        path = raw.decode("latin-1").partition("?")[0]
        await self._app({**scope, "path": path}, receive, send)


async def nothing_here(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer that there is no such address."""
    problem = Problem(404, f"there is no such address; {PLACE}/openapi.json lists all")
    await problem.response()(scope, receive, send)


@cache
def _described() -> dict[str, Any]:
    """Return the OpenAPI document; cached, because it takes a second to make."""
    return document(OPERATIONS)


def description(root: str) -> bytes:
    """Return the OpenAPI document as JSON, for a web process below this root path."""
    servers = [{"url": root + PLACE}]
    return json.dumps({**_described(), "servers": servers}, separators=(",", ":")).encode()


def describing() -> WebRoute:
    """Make the route of the OpenAPI document."""

    async def describe(request: Request) -> Response:
        return Response(description(root_of(request)), media_type=JSON)

    return WebRoute("/openapi.json", describe)


def mount() -> Mount:
    """Make the mount of the API."""
    routes = [to_starlette(describing()), *routes_of(OPERATIONS)]
    mounted = Mount(PLACE, EncodedPaths(Router(routes, redirect_slashes=False, default=nothing_here)))
    # A line end in a taskid does not end the path.
    mounted.path_regex = re.compile(mounted.path_regex.pattern, re.DOTALL)
    return mounted


class Address:
    """ASGI application with all operations at one path."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._admitted: dict[str, Admitted] = {each.method: _admitted(each) for each in operations}

    @property
    def methods(self) -> list[str]:
        """Allowed methods."""
        heads = ["HEAD"] if "GET" in self._admitted else []
        return [*self._admitted, *heads, "OPTIONS"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        try:
            await self._admitted.get(method, self._answer_other)(scope, receive, send)
        except ClientDisconnect:
            return
        except HTTPException as refused:  # refused or without a place; no response has begun
            await Problem(refused.status_code, refused.detail, **dict(refused.headers or {})).response()(
                scope, receive, send
            )

    async def _answer_other(self, scope: Scope, receive: Receive, send: Send) -> None:
        allowed = ", ".join(self.methods)
        if scope["method"] == "OPTIONS":
            response = Response(status_code=204, headers={"Allow": allowed})
        else:
            response = Problem(405, f"{scope['method']} is not for this address", Allow=allowed).response()
        await response(scope, receive, send)


def _admitted(operation: Operation) -> Admitted:
    """Wrap an operation's endpoint with its right and its errors."""
    endpoint = (operation.endpoint or answering)(operation)

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except (Problem, TaskQueueError, HTTPException) as error:
            if (problem := problem_of(error)) is None:
                raise
            return problem.response()

    return Admitted(answer, operation.right, is_long=operation.is_long)


class AddressRoute(Route):
    """Route to an address, which answers other methods by itself."""

    def __init__(self, path: str, found: Address) -> None:
        super().__init__(path, found, name=path)
        # Methods of another route at the same path, such as one with a name there, are left to that route.
        self.methods = set(found.methods)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, whatever the method."""
        await self.app(scope, receive, send)


def routes_of(operations: Iterable[Operation]) -> list[Route]:
    """Make a route for each path, in the order of the operations."""
    by_path: dict[str, list[Operation]] = {}
    for each in operations:
        by_path.setdefault(each.path, []).append(each)
    routes: list[Route] = []
    for path, there in by_path.items():
        found = Address(there)
        routes.append(AddressRoute(path, found))
    return routes
