"""A row for each address that the web process answers: who may ask, and who answers.

Each folder has a tuple ``ROUTES`` of them; ``app`` collects these.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from taskqueue.web.access.visitors import Role, demand

Endpoint = Callable[[Request], Awaitable[Response]]


class WebRoute(NamedTuple):
    """An address.

    Attributes:
        path: with parameters, as Starlette has them: ``/projects/{project}``.
        role: the least that a visitor must have.
    """

    path: str
    endpoint: Endpoint
    role: Role = "viewer"
    methods: tuple[str, ...] = ("GET",)


def to_starlette(route: WebRoute) -> Route:
    """The route of the framework, which lets nobody pass who may not."""

    async def guarded(request: Request) -> Response:
        demand(request, route.role)
        return await route.endpoint(request)

    return Route(route.path, guarded, methods=list(route.methods), name=route.path)
