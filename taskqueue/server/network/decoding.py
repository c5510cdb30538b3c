"""Decodes frames into typed requests, or into error replies; estimates what requests cost. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from taskqueue.errors import Rejected
from taskqueue.protocol.codec import decode_request, request_number
from taskqueue.protocol.replies import ErrorReply, Outgoing
from taskqueue.protocol.requests import (
    AnyRequest,
    Bulk,
    Done,
    Fetchers,
    GroupDo,
    Incoming,
    Log,
    NewTasks,
    OperationList,
    ProjectDo,
    ProjectSet,
    Stats,
    StatsHistory,
    Status,
    TaskList,
    TaskShow,
    Verify,
)
from taskqueue.server.network.router import Frame

SLOW_MS: Final = 10.0
"""Milliseconds that the slow requests of a turn may take together; the rest is left to the next one."""

FRAME_MS: Final = 0.05
"""Milliseconds that a small request takes."""
ITEM_MS: Final = 0.01
BYTE_MS: Final = 30e-6
"""Milliseconds that a batch takes per byte, or (ITEM_MS) per item, if that is more."""

SLOW: Final[Mapping[type, float]] = {
    TaskShow: 5.0,
    TaskList: 5.0,
    Status: 5.0,
    Fetchers: SLOW_MS,
    Stats: 2.0,
    StatsHistory: 5.0,
    OperationList: 1.0,
    Log: 5.0,
    Bulk: 3.0,
    GroupDo: 3.0,
    ProjectDo: 0.2,
    ProjectSet: SLOW_MS / 2,
    Verify: SLOW_MS,
}
"""What requests take that look at much, drop much or are told much: milliseconds, at ten thousand projects, at their
worst."""


def slowness(request: AnyRequest) -> float:
    """Milliseconds that a request may take beyond what every small one does."""
    if type(request) is Status and request.sort != "name":
        return SLOW_MS
    return SLOW.get(type(request), 0.0)


def cost(request: AnyRequest, size: int) -> float:
    """Milliseconds that a request of ``size`` bytes takes, without its ``slowness``."""
    items = len(request.tasks) if type(request) is NewTasks or type(request) is Done else 0
    return FRAME_MS + max(ITEM_MS * items, BYTE_MS * size)


def decode_frame(frame: Frame, max_message: int) -> Incoming:
    """The request in a frame.

    Raises:
        Rejected: it contains none, or is too long.
    """
    if frame.parts != 1:
        raise Rejected("malformed", f"a message is one frame after the routing id, not {frame.parts}")
    request, flaws = decode_request(frame.payload, max_message)
    return Incoming(frame.peer, request, flaws, frame.address)


def refusal(frame: Frame, why: Rejected) -> Outgoing:
    """The error reply to a refused frame; it waits for no sync."""
    reply = ErrorReply(n=request_number(frame.payload), code=why.code, reason=why.reason)
    return Outgoing(frame.peer, reply, kept=False)
