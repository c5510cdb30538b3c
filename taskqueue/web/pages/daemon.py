"""The page of the daemon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request

from taskqueue.web.pages.live_page import LivePage, routes_of
from taskqueue.web.routes import WebRoute
from taskqueue.web.services import services_of


async def look(request: Request) -> Mapping[str, Any]:
    """Ask for its status."""
    return {"status": await services_of(request).client.status(limit=1, fetchers=0)}


ROUTES: Final[tuple[WebRoute, ...]] = routes_of(LivePage("/daemon", "daemon.html", look, ("figures",)))
