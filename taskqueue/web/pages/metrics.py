"""Addresses for monitoring: metrics, and health of this process and of the daemon."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from taskqueue.web.routes import WebRoute
from taskqueue.web.services import own_services_of, services_of


async def show_metrics(request: Request) -> Response:
    """Answer a scrape of Prometheus, always with 200; ``taskqueue_up`` says whether the daemon answers."""
    scrape = services_of(request).scrape
    if not scrape.is_on:
        return PlainTextResponse("this process was started with --no-metrics\n", 404)
    text, content_type = await scrape.text(request.headers.get("accept", ""))
    return Response(text, headers={"content-type": content_type})


async def show_health(request: Request) -> Response:
    """Answer that this process is alive, without asking the daemon."""
    return PlainTextResponse("well\n")


async def show_readiness(request: Request) -> Response:
    """Answer whether the daemon is ready: not while it loads its store, nor if nothing listens at its address."""
    trouble = await own_services_of(request).scrape.trouble()
    return PlainTextResponse(f"not ready: {trouble}\n" if trouble else "ready\n", 503 if trouble else 200)


ROUTES: Final[tuple[WebRoute, ...]] = (
    WebRoute("/metrics", show_metrics),
    # Answered at once, for any number of clients.
    WebRoute("/healthz", show_health, right=None, is_long=True),
    WebRoute("/readyz", show_readiness, right=None),
)
