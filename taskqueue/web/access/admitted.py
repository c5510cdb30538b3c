"""Runs an endpoint for those who may ask it, in a place of its own, and as long as they may."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from taskqueue.web.access.access import Access
from taskqueue.web.access.places import Places
from taskqueue.web.access.refusals import Refused
from taskqueue.web.access.visitors import Visitor, demand, visitor_of
from taskqueue.web.roles import Role

LOOK_SECONDS: Final = 5.0
"""How often it is seen to that whoever reads a long response still may."""


class Admitted:
    """An endpoint and whoever may ask it; an application by itself.

    Args:
        is_long: whether it lasts as long as the asker likes.
    """

    def __init__(self, endpoint: Callable[[Request], Awaitable[Response]], role: Role, *, is_long: bool) -> None:
        self._endpoint = endpoint
        self._role = role
        self._is_long = is_long

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or raise an HTTPException."""
        request = Request(scope, receive, send)
        demand(request, self._role)
        places: Places = request.app.state.places
        if not self._is_long:
            async with places.short():
                response = await self._endpoint(request)
            await response(scope, receive, send)
            return
        with places.long(visitor_of(request).name):
            response = await self._endpoint(request)
            try:
                await response(scope, receive, _while_admitted(request, send))
            except _NoLonger:
                await send({"type": "http.response.body", "body": b"", "more_body": False})


class _NoLonger(Exception):
    """Whoever reads has no right to any more."""


def _while_admitted(request: Request, send: Send) -> Send:
    looked_at = time.monotonic()

    async def sending(message: Message) -> None:
        nonlocal looked_at
        if message["type"] == "http.response.body" and time.monotonic() - looked_at >= LOOK_SECONDS:
            looked_at = time.monotonic()
            if not await _is_still(request):
                raise _NoLonger
        await send(message)

    return sending


async def _is_still(request: Request) -> bool:
    access: Access = request.app.state.access
    was: Visitor = visitor_of(request)
    try:
        now = await access.identify(request, request.state.arrival)
    except Refused:
        return False
    return (now.name, now.role) == (was.name, was.role)
