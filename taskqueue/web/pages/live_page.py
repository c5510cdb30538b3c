"""A page whose blocks are sent anew when they change: made of one look at the daemon and one template.

The template has each live block in an element of its own, whose id is the name of the block:

    <section id="queue">{% block queue %} … {% endblock %}</section>

All browsers at the same address that may do the same share one look a second. Addresses below ``data-…``, and what
``live`` says, are without the root path: scripts add it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from taskqueue.web.access.visitors import root_of, visitor_of
from taskqueue.web.live.channels import SOONEST_SECONDS, Picture, stream
from taskqueue.web.page_templates import Templates
from taskqueue.web.roles import Role
from taskqueue.web.routes import WebRoute
from taskqueue.web.services import services_of

Look = Callable[[Request], Awaitable[Mapping[str, Any]]]
"""Asks the daemon what the template needs.

Raises:
    TaskQueueError: it did not answer, or refused.
"""


Parts = Callable[[Templates, Mapping[str, Any]], Picture]
"""Makes of what a look found the sections of a picture besides those blocks, such as cells."""


class LivePage(NamedTuple):
    """A page.

    Attributes:
        path: as of a route; its stream is at the same path below ``/live``.
        template: its file.
        blocks: that are live.
        parts: what else is.
        again: asks what its stream needs, if that is less than what the page needs.
        every: seconds between two looks.
    """

    path: str
    template: str
    look: Look
    blocks: tuple[str, ...] = ()
    parts: Parts | None = None
    role: Role = "viewer"
    every: float = SOONEST_SECONDS
    again: Look | None = None


def routes_of(page: LivePage) -> tuple[WebRoute, ...]:
    """The routes of a page and of its stream."""

    async def show(request: Request) -> Response:
        live = f"/live{_address(request)}" if page.blocks else ""
        context = {"live": live, **await page.look(request)}
        return services_of(request).templates.page(request, page.template, context)

    async def follow(request: Request) -> Response:
        services = services_of(request)
        visitor = visitor_of(request)
        # Its blocks depend on what a visitor may do and where the pages stand, and on nothing else of the visitor.
        view = f"{visitor.role} {root_of(request)} {_address(request)}"

        async def look() -> Picture:
            context = {"visitor": visitor, "root": root_of(request), **await (page.again or page.look)(request)}
            blocks = services.templates.blocks(page.template, context, page.blocks)
            picture = page.parts(services.templates, context) if page.parts else {}
            return {**picture, "blocks": {**blocks, **picture.get("blocks", {})}}

        return stream(services.channels.changes(view, look, page.every))

    shown = WebRoute(page.path, show, page.role)
    return (shown, WebRoute(f"/live{page.path}", follow, page.role, is_long=True)) if page.blocks else (shown,)


def _address(request: Request) -> str:
    """Path and query of a request as the browser wrote them: what is escaped in a name stays escaped."""
    return f"{request.scope['raw_path'].decode('latin-1')}?{request.url.query}"
