"""Live page: its blocks are sent again when they change. Made of one look at the daemon and one template.

The template wraps each live block in an element whose id is the block's name:

    <section id="queue">{% block queue %} … {% endblock %}</section>

Browsers of a user at the same address share one look a second. Addresses in ``data-…``, and ``live``, are
without the root path: scripts add it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from taskqueue.web.access.visitors import root_of, visitor_of
from taskqueue.web.live.channels import SOONEST_SECONDS, Picture, stream
from taskqueue.web.page_templates import Templates
from taskqueue.web.routes import WebRoute
from taskqueue.web.services import services_of

Look = Callable[[Request], Awaitable[Mapping[str, Any]]]
"""Function that fetches the template's context from the daemon.

Raises:
    TaskQueueError: the daemon does not answer, or refuses.
"""


Parts = Callable[[Templates, Mapping[str, Any]], Picture]
"""Function that makes the picture's other sections, such as cells, from the context."""


class LivePage(NamedTuple):
    """Live page.

    Attributes:
        path: path as of a route; its stream is at the same path below ``/live``.
        template: file of the template.
        blocks: names of the live blocks.
        parts: makes further live parts.
        again: fetches the context of the stream, if it needs less than the page.
        every: seconds between two looks.
    """

    path: str
    template: str
    look: Look
    blocks: tuple[str, ...] = ()
    parts: Parts | None = None
    every: float = SOONEST_SECONDS
    again: Look | None = None


def routes_of(page: LivePage) -> tuple[WebRoute, ...]:
    """Make the routes of a page and of its stream."""

    async def show(request: Request) -> Response:
        live = f"/live{_address(request)}" if page.blocks else ""
        context = {"live": live, **await page.look(request)}
        return services_of(request).templates.page(request, page.template, context)

    async def follow(request: Request) -> Response:
        services = services_of(request)
        visitor = visitor_of(request)
        # Its blocks depend on the visitor's role and the root path, and on nothing else of the visitor.
        view = f"{visitor.role} {root_of(request)} {_address(request)}"

        async def look() -> Picture:
            context = {"visitor": visitor, "root": root_of(request), **await (page.again or page.look)(request)}
            blocks = services.templates.blocks(page.template, context, page.blocks)
            picture = page.parts(services.templates, context) if page.parts else {}
            return {**picture, "blocks": {**blocks, **picture.get("blocks", {})}}

        return stream(services.channels.changes(view, look, page.every))

    shown = WebRoute(page.path, show)
    return (shown, WebRoute(f"/live{page.path}", follow, is_long=True)) if page.blocks else (shown,)


def _address(request: Request) -> str:
    """Return path and query as the browser wrote them, with escapes in names."""
    return f"{request.scope['raw_path'].decode('latin-1')}?{request.url.query}"
