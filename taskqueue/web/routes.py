"""Rows for the addresses of the web process, each with its endpoint and the right that it takes.

Each page has a tuple ``ROUTES`` of them; ``main`` collects these. ``{name:text}`` at the end of a path matches any
text, with slashes and line breaks; Starlette's own ``path`` ends at the first line break.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Match, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from taskqueue.protocol.callers import Right
from taskqueue.web.access.admission import Admitted
from taskqueue.web.access.visitors import root_of


class TextConvertor(Convertor[str]):
    """Rest of a path, with any characters: ``path`` of Starlette ends at a line end."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        """Return the text itself."""
        return value

    def to_string(self, value: str) -> str:
        """Return the text itself."""
        return value


register_url_convertor("text", TextConvertor())

Endpoint = Callable[[Request], Awaitable[Response]]


class WebRoute(NamedTuple):
    """Address of the web process.

    Attributes:
        path: path with parameters, as in Starlette: ``/projects/{project}``; ``{name:text}`` is all the rest.
        right: right that a visitor needs; None: strangers come in, too.
        is_long: True for responses that last as long as the client wants; they take none of the few short places.
    """

    path: str
    endpoint: Endpoint
    right: Right | None = "look"
    methods: tuple[str, ...] = ("GET",)
    is_long: bool = False


def to_starlette(route: WebRoute) -> Route:
    """Make the framework's route, which checks the visitor's right."""
    admitted = Admitted(route.endpoint, route.right, is_long=route.is_long)
    return Route(route.path, admitted, methods=list(route.methods), name=route.path)


def nothing_here(router: Router) -> ASGIApp:
    """Make the fallback of the router: redirect to the address without slashes at its end if it exists, else 404."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        shorter = {**scope, "path": scope["path"].rstrip("/")}
        is_there = any(route.matches(shorter)[0] is not Match.NONE for route in router.routes)
        if shorter["path"] in ("", scope["path"]) or not is_there:
            raise HTTPException(404)
        path, query = (scope[part].decode("latin-1") for part in ("raw_path", "query_string"))
        target = f"{root_of(Request(scope))}{path.rstrip('/')}"
        await RedirectResponse(f"{target}?{query}" if query else target)(scope, receive, send)

    return answer
