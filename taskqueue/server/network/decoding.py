"""From a frame to a typed request, or to the error reply that says why not. Pure."""

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
"""Milliseconds that the slow requests of a turn may take together; the rest is heard in the next one."""

FRAME_MS: Final = 0.05
"""What a small request takes."""
ITEM_MS: Final = 0.01
BYTE_MS: Final = 30e-6
"""What a batch takes for each item, or for each of its bytes, if that is more."""

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
    """Milliseconds that a request may take, beside the time that every small one does."""
    if type(request) is Status and request.sort != "name":
        return SLOW_MS
    return SLOW.get(type(request), 0.0)


def cost(request: AnyRequest, size: int) -> float:
    """Milliseconds that a request of so many bytes takes, as small ones and batches do; ``slowness`` comes on top."""
    items = len(request.tasks) if type(request) is NewTasks or type(request) is Done else 0
    return FRAME_MS + max(ITEM_MS * items, BYTE_MS * size)


def decode_frame(frame: Frame, max_message: int) -> Incoming:
    """The request in a frame.

    Raises:
        Rejected: there is none, or it is too long.
    """
    if frame.parts != 1:
        raise Rejected("malformed", f"a message is one frame after the routing id, not {frame.parts}")
    request, flaws = decode_request(frame.payload, max_message)
    return Incoming(frame.peer, request, flaws, frame.address)


def refusal(frame: Frame, why: Rejected) -> Outgoing:
    """The reply to a frame that was refused; it waits for nothing."""
    reply = ErrorReply(n=request_number(frame.payload), code=why.code, reason=why.reason)
    return Outgoing(frame.peer, reply, kept=False)
