"""What answers most operations: decode, ask the daemon, encode.

A change that comes with a key is asked so that the daemon knows it again: see ``repeats``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from taskqueue.web.api.decoding import JSON, Decoding
from taskqueue.web.api.json_replies import json_of
from taskqueue.web.api.operation import Endpoint, Operation
from taskqueue.web.api.paging import address, link
from taskqueue.web.api.repeats import Repeats
from taskqueue.web.services import services_of

T = TypeVar("T")


def answering(operation: Operation) -> Endpoint:
    """The endpoint of an operation that is one request to the daemon and its reply."""
    decoding = Decoding(operation)

    async def answer(request: Request) -> Response:
        asked = await decoding.asked(request)
        services = services_of(request)
        patience = services.options.timeout + (asked.request.seconds if operation.waits else 0.0)
        app = request.app.state
        naming = app.waiting_sessions.known_as() if operation.waits else app.repeats.known_as(request, asked.request)
        with naming as known:
            asking = services.client.ask(asked.request, operation.answers, patience, known)
            reply = await while_there(request, asking)
        body = json_of(reply)
        headers = {}
        if operation.further is not None:
            changed = operation.further(reply, asked.said)
            body["next"] = None if changed is None else address(request, changed)
            if body["next"]:
                headers["Link"] = link(body["next"])
        return in_json(body, headers=headers)

    return answer


def in_json(body: Any, headers: dict[str, str] | None = None) -> Response:
    """A response of JSON, which nobody keeps."""
    content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(errors="backslashreplace")
    return Response(content, headers={"Cache-Control": "no-store"} | (headers or {}), media_type=JSON)


async def while_there(request: Request, answering: Awaitable[T]) -> T:
    """The result, as long as somebody waits for it.

    Raises:
        ClientDisconnect: he has gone.
    """
    asking = asyncio.ensure_future(answering)
    leaving = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait((asking, leaving), return_when=asyncio.FIRST_COMPLETED)
        if asking.done():
            return asking.result()
        raise ClientDisconnect
    finally:
        asking.cancel()
        leaving.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def repeats_of(request: Request) -> Repeats:
    """The keys of this web process."""
    found: Repeats = request.app.state.repeats
    return found
