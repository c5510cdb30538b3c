"""From a frame to a typed request, or to the error reply that says why not. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from taskqueue.core.replies import ErrorReply, Said
from taskqueue.core.requests import (
    AnyRequest,
    Bulk,
    Fetchers,
    GroupDo,
    Heard,
    Log,
    OperationList,
    ProjectDo,
    Stats,
    StatsHistory,
    Status,
    TaskList,
    TaskShow,
    Verify,
)
from taskqueue.errors import Rejected
from taskqueue.server.router import Frame
from taskqueue.wire import decode_request, request_number

COST_MOST: Final = 10.0
"""Milliseconds that the slow requests of a turn may take together; the rest is heard in the next one."""

SLOW: Final[Mapping[type, float]] = {
    TaskShow: 2.5,
    TaskList: 5.0,
    Status: 5.0,
    Fetchers: COST_MOST,
    Stats: 2.0,
    StatsHistory: 5.0,
    OperationList: 1.0,
    Log: 5.0,
    Bulk: 3.0,
    GroupDo: 3.0,
    ProjectDo: 0.2,
    Verify: COST_MOST,
}
"""What requests take that look at much, drop much or are told much: milliseconds, at ten thousand projects, at their
worst."""


def cost(request: AnyRequest) -> float:
    """Milliseconds that a request may take, beside the time that every small one does."""
    if type(request) is Status and request.sort != "name":
        return COST_MOST
    return SLOW.get(type(request), 0.0)


def hear(frame: Frame, max_message: int) -> Heard:
    """The request in a frame.

    Raises:
        Rejected: there is none, or it is too long.
    """
    if frame.parts != 1:
        raise Rejected("malformed", f"a message is one frame after the routing id, not {frame.parts}")
    request, flaws = decode_request(frame.payload, max_message)
    return Heard(frame.peer, request, flaws, frame.address)


def refusal(frame: Frame, why: Rejected) -> Said:
    """The reply to a frame that was refused; it waits for nothing."""
    reply = ErrorReply(n=request_number(frame.payload), code=why.code, reason=why.reason)
    return Said(frame.peer, reply, kept=False)
