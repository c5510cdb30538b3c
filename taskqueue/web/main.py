"""Web process: its addresses, the way of each request, and the server that runs until a signal ends it.

    bytes ──http_connection──► request ──Gate──► ROUTES ──► page or operation ──Services──► daemon

Everything that lives as long as the process is made here: connections to the daemon, shared pictures, rights.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from taskqueue.errors import ConfigError
from taskqueue.terminal.lines import say
from taskqueue.terminal.log_lines import LogHandler
from taskqueue.web.access.access import Access, check_start
from taskqueue.web.access.admission import Places, Rights
from taskqueue.web.access.gate import Gate
from taskqueue.web.access.users import Ask
from taskqueue.web.api import interface as api
from taskqueue.web.api.repeats import Repeats
from taskqueue.web.http_connection import with_patience
from taskqueue.web.options import WebOptions
from taskqueue.web.pages import cron, daemon, fetchers, flows, insight, login, metrics, operations, projects, tasks
from taskqueue.web.pages.error_page import HANDLERS
from taskqueue.web.routes import WebRoute, nothing_here, to_starlette
from taskqueue.web.services import USERS_MOST, UserServices

ROUTES: Final[tuple[WebRoute, ...]] = (
    *tasks.ROUTES,
    *projects.ROUTES,
    *fetchers.ROUTES,
    *flows.ROUTES,
    *cron.ROUTES,
    *operations.ROUTES,
    *insight.ROUTES,
    *daemon.ROUTES,
    *metrics.ROUTES,
    *login.ROUTES,
)
"""All addresses except the files in ``static``."""


def make_app(options: WebOptions, ask: Ask | None = None) -> Starlette:
    """Make the application; it connects to the daemon when it is asked first.

    Args:
        ask: answers who a user is; None: the daemon.
    """
    users = UserServices(options)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None, None]:
        async with aclosing(users):
            yield

    access = Access(options, ask or users.own.client._ask)
    files = StaticFiles(directory=Path(__file__).parent / "static")
    app = Starlette(
        routes=[*map(to_starlette, ROUTES), api.mount(), Mount("/static", files)],
        middleware=[Middleware(Gate, access)],
        exception_handlers=HANDLERS,
        lifespan=lifespan,
    )
    # Starlette's own redirects name the host, and lose the root path and escapes in names.
    app.router.redirect_slashes, app.router.default = False, nothing_here(app.router)
    app.state.access = access
    app.state.users = users
    app.state.repeats = Repeats()
    app.state.places = Places()
    app.state.rights = Rights(access)
    return app


# ------------------------------------------------------------------------------------------------------------ listening

BACKLOG: Final = 1024
"""Connections that the kernel queues, and that the event loop may accept before it handles one of them."""

FILES_ELSE: Final = 64
"""Open files besides connections."""

FILES_OF_USERS: Final = 10 * USERS_MOST
"""Open files of connections to the daemon, one for each user if the daemon has keys."""

UNREAD_BYTES: Final = 256 * 1024
"""Bytes that the kernel buffers for a peer that does not read; its default is megabytes."""

STOP_SECONDS: Final = 2
"""Time for streams, which never end by themselves, when the process stops."""


def run(options: WebOptions, until_stdin_ends: bool) -> int:
    """Listen and serve; return the exit status.

    Args:
        until_stdin_ends: end when stdin is closed.

    Raises:
        ConfigError: the address can't be used, or anyone could come in.
    """
    check_start(options)
    _log_to_stderr()
    of_users = FILES_OF_USERS if options.key is not None else 0
    wanted = options.patience.connections + BACKLOG + FILES_ELSE + of_users
    backlog, connections = _shares(_allow_files(wanted), of_users)
    patience = replace(options.patience, connections=min(options.patience.connections, connections))
    with closing(_listen(options.host, options.port, backlog)) as listening:
        host, port = listening.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        say(f"http://{shown}:{port}{options.access.root_path}/ shows the daemon at {options.daemon_url}", err=True)
        config = uvicorn.Config(
            make_app(options),
            log_config=None,
            access_log=False,
            # Reads strictly and unambiguously.
            http=with_patience(patience, options.access.proxies),
            backlog=backlog,
            ws="none",
            # ``access.arrival`` decides which proxies' headers count.
            proxy_headers=False,
            server_header=False,
            lifespan="on",
            timeout_graceful_shutdown=STOP_SECONDS,
        )
        server = _Taken(config) if until_stdin_ends else uvicorn.Server(config)
        server.run(sockets=[listening])
    return 0


def _allow_files(count: int) -> int:
    """Allow this many open files, or as many as the system permits; return the number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= count:
        return count
    most = count if hard == resource.RLIM_INFINITY else min(count, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
    return max(soft, most)


def _shares(files: int, of_users: int = 0) -> tuple[int, int]:
    """Divide open files between backlog and connections, of which those of users leave at least a quarter.

    A process without a free file can't accept a connection, and so can't close an idle one in its favour.
    """
    free = max(files - FILES_ELSE - of_users, (files - FILES_ELSE) // 4, 2)
    backlog = min(BACKLOG, free // 2)
    return backlog, free - backlog


def _log_to_stderr() -> None:
    logging.basicConfig(level=logging.WARNING, handlers=[LogHandler()])
    # It logs a line for each invalid request, by which anyone could fill the disk.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)


class _Taken(uvicorn.Server):
    """Server that ends with its parent process."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._look_at_stdin)
        await super().startup(sockets)

    def _look_at_stdin(self) -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            self.should_exit = True


def _listen(host: str, port: int, backlog: int) -> socket.socket:
    try:
        listening = socket.create_server((host, port), family=_family(host), backlog=backlog)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNREAD_BYTES)
        # asyncio does so only if the protocol is given, and create_server gives none: 45 ms a response otherwise.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        raise ConfigError(f"{host}:{port}: can't listen there: {error.strerror}") from None
    return listening


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
