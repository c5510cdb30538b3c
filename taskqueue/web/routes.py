"""A row for each address that the web process answers: who may ask, and who answers.

Each page has a tuple ``ROUTES`` of them; ``main`` collects these. ``{name:text}`` at the end of a path is any text,
with slashes and line breaks; Starlette's own ``path`` ends at the first line break.
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

from taskqueue.web.access.admission import Admitted
from taskqueue.web.access.visitors import root_of
from taskqueue.web.roles import Role


class TextConvertor(Convertor[str]):
    """The rest of a path, whatever is in it: ``path`` of Starlette ends at a line end."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        """The text itself."""
        return value

    def to_string(self, value: str) -> str:
        """The text itself."""
        return value


register_url_convertor("text", TextConvertor())

Endpoint = Callable[[Request], Awaitable[Response]]


class WebRoute(NamedTuple):
    """An address.

    Attributes:
        path: with parameters, as Starlette has them: ``/projects/{project}``; ``{name:text}`` is all the rest.
        role: the least that a visitor must have.
        is_long: it lasts as long as the asker likes, so it takes none of the few places of those that ask and answer.
    """

    path: str
    endpoint: Endpoint
    role: Role = "viewer"
    methods: tuple[str, ...] = ("GET",)
    is_long: bool = False


def to_starlette(route: WebRoute) -> Route:
    """The route of the framework, which lets nobody pass who may not."""
    admitted = Admitted(route.endpoint, route.role, is_long=route.is_long)
    return Route(route.path, admitted, methods=list(route.methods), name=route.path)


def nothing_here(router: Router) -> ASGIApp:
    """Make what answers where no route is: it leads to the same address without slashes at its end, if one is there."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        shorter = {**scope, "path": scope["path"].rstrip("/")}
        is_there = any(route.matches(shorter)[0] is not Match.NONE for route in router.routes)
        if shorter["path"] in ("", scope["path"]) or not is_there:
            raise HTTPException(404)
        path, query = (scope[part].decode("latin-1") for part in ("raw_path", "query_string"))
        target = f"{root_of(Request(scope))}{path.rstrip('/')}"
        await RedirectResponse(f"{target}?{query}" if query else target)(scope, receive, send)

    return answer
