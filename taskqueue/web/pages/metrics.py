"""The addresses that machines look at: metrics, and whether this process and the daemon are well."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from taskqueue.web.routes import WebRoute
from taskqueue.web.services import services_of


async def show_metrics(request: Request) -> Response:
    """What Prometheus scrapes. It is answered in any case; ``taskqueue_up`` says whether the daemon is."""
    scrape = services_of(request).scrape
    if not scrape.is_on:
        return PlainTextResponse("this process was started with --no-metrics\n", 404)
    text, content_type = await scrape.text(request.headers.get("accept", ""))
    return Response(text, headers={"content-type": content_type})


async def show_health(request: Request) -> Response:
    """Whether this process lives; nobody is asked."""
    return PlainTextResponse("well\n")


async def show_readiness(request: Request) -> Response:
    """Whether the daemon answers: not while it reads its store again, and not when nobody listens."""
    trouble = await services_of(request).scrape.trouble()
    return PlainTextResponse(f"not ready: {trouble}\n" if trouble else "ready\n", 503 if trouble else 200)


ROUTES: Final[tuple[WebRoute, ...]] = (
    WebRoute("/metrics", show_metrics),
    # Answered at once, however many ask the daemon.
    WebRoute("/healthz", show_health, role="anyone", is_long=True),
    WebRoute("/readyz", show_readiness, role="anyone"),
)
