"""Endpoint of most operations: decode, ask the daemon, encode its reply as JSON.

A change with a key is sent so that the daemon recognises its repetition: see ``repeats``. Replies look as with
``--json`` (``display.json_values``), except that numbers of up to 63 bits are text, because JavaScript and others read
numbers as floats, which are exact only up to 2^53.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from typing import Any, Final, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from taskqueue.display.json_values import as_plain
from taskqueue.protocol.base import AnyReply, Reply
from taskqueue.protocol.fetchers import TokensReply
from taskqueue.protocol.insight import LogReply
from taskqueue.protocol.values import Change
from taskqueue.protocol.values import Operation as OperationView
from taskqueue.web.api.decoding import JSON, Decoding
from taskqueue.web.api.http_operation import Endpoint, Operation
from taskqueue.web.api.lease_objects import Handed
from taskqueue.web.api.paging import address, link
from taskqueue.web.api.repeats import Repeats
from taskqueue.web.services import services_of

T = TypeVar("T")


def answering(operation: Operation) -> Endpoint:
    """Make the endpoint of an operation that is one request to the daemon and its reply."""
    decoding = Decoding(operation)

    async def answer(request: Request) -> Response:
        asked = await decoding.asked(request)
        services = services_of(request)
        patience = services.options.timeout + (asked.request.seconds if operation.waits else 0.0)
        app = request.app.state
        naming = services.waiting.known_as() if operation.waits else app.repeats.known_as(request, asked.request)
        with naming as known:
            asking = services.client._ask(asked.request, patience, known)
            reply = await while_there(request, asking)
        body = json_of(reply if operation.shown is None else operation.shown(reply, asked.said))
        headers = {}
        if operation.further is not None:
            changed = operation.further(reply, asked.said)
            body["next"] = None if changed is None else address(request, changed)
            if body["next"]:
                headers["Link"] = link(body["next"])
        return in_json(body, headers=headers)

    return answer


def in_json(body: Any, headers: dict[str, str] | None = None) -> Response:
    """Make a response of JSON that is not cached."""
    content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(errors="backslashreplace")
    return Response(content, headers={"Cache-Control": "no-store"} | (headers or {}), media_type=JSON)


async def while_there(request: Request, answering: Awaitable[T]) -> T:
    """Await a result while the client stays connected.

    Raises:
        ClientDisconnect: the client has disconnected.
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
    """Return the idempotency keys of this web process."""
    found: Repeats = request.app.state.repeats
    return found


# ------------------------------------------------------------------------------------------------------ replies as JSON

AS_TEXT: Final[frozenset[tuple[type[msgspec.Struct], str]]] = frozenset(
    {(OperationView, "id"), (Change, "number"), (LogReply, "next"), (TokensReply, "stale"), (Handed, "token")}
)
"""Fields whose numbers have up to 63 bits."""

ENVELOPE: Final = frozenset(Reply.__struct_fields__)


def json_of(value: object) -> Any:
    """Convert a reply, or a part of one, into plain values."""
    if isinstance(value, msgspec.Struct):
        return _object(value)
    if isinstance(value, dict):
        return {str(name): json_of(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [json_of(part) for part in value]
    return as_plain(value)


def _object(value: msgspec.Struct) -> dict[str, Any]:
    kind, hidden = type(value), ENVELOPE if isinstance(value, AnyReply) else ()
    return {
        field.encode_name: _text(getattr(value, field.name))
        if (kind, field.name) in AS_TEXT
        else json_of(getattr(value, field.name))
        for field in msgspec.structs.fields(kind)
        if field.name not in hidden
    }


def _text(found: Any) -> Any:
    return [str(each) for each in found] if isinstance(found, list) else str(found)
