"""The application: which addresses there are, what every request passes, and what lives as long as the process."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from taskqueue import AsyncClient
from taskqueue.web.access.access import Access
from taskqueue.web.access.admitted import Rights
from taskqueue.web.access.gate import Gate
from taskqueue.web.access.places import Places
from taskqueue.web.api import interface as api
from taskqueue.web.api.repeats import Repeats
from taskqueue.web.api.waiting import WaitingSessions
from taskqueue.web.live.channels import Channels
from taskqueue.web.live.project_pulses import ProjectPulses
from taskqueue.web.live.project_table import ProjectTable
from taskqueue.web.metrics.scrape import Scrape
from taskqueue.web.options import WebOptions
from taskqueue.web.page_templates import Templates
from taskqueue.web.pages import (
    daemon,
    failures,
    fetchers,
    flow,
    flows,
    log,
    login,
    metrics,
    operations,
    project,
    projects,
    task,
    tasks,
)
from taskqueue.web.pages.errors import HANDLERS
from taskqueue.web.routes import WebRoute, nothing_here, to_starlette
from taskqueue.web.services import Services

ROUTES: Final[tuple[WebRoute, ...]] = (
    *daemon.ROUTES,
    *failures.ROUTES,
    *fetchers.ROUTES,
    *flow.ROUTES,
    *flows.ROUTES,
    *log.ROUTES,
    *login.ROUTES,
    *metrics.ROUTES,
    *operations.ROUTES,
    *project.ROUTES,
    *projects.ROUTES,
    *task.ROUTES,
    *tasks.ROUTES,
)
"""All addresses but those of the files in ``static``."""


def make_app(options: WebOptions) -> Starlette:
    """The application; it connects to the daemon when it is started."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None, None]:
        def connect() -> AsyncClient:
            return AsyncClient(options.daemon_url, name=options.name, timeout=options.timeout)

        async with (
            connect() as client,
            connect() as watching,
            AsyncClient(options.daemon_url, name=f"{options.name} metrics", timeout=options.timeout) as scraping,
            aclosing(ProjectPulses(watching)) as pulses,
            aclosing(ProjectTable(client, pulses)) as table,
        ):
            scrape = Scrape(scraping, options.metrics_projects)
            app.state.services = Services(options, client, Channels(), table, Templates(), scrape)
            yield

    access = Access(options)
    files = StaticFiles(directory=Path(__file__).parent / "static")
    app = Starlette(
        routes=[*map(to_starlette, ROUTES), api.mount(), Mount("/static", files)],
        middleware=[Middleware(Gate, access)],
        exception_handlers=HANDLERS,
        lifespan=lifespan,
    )
    # Starlette's own redirects name the host, and forget the root path and what is escaped in names.
    app.router.redirect_slashes, app.router.default = False, nothing_here(app.router)
    app.state.access = access
    app.state.repeats = Repeats()
    app.state.waiting_sessions = WaitingSessions()
    app.state.places = Places()
    app.state.rights = Rights(access)
    return app
