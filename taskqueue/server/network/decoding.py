"""Decodes frames into typed requests, or into error replies; estimates what requests cost. Pure."""

from __future__ import annotations

from typing import Final

from taskqueue.errors import Rejected
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.codec import decode_request, request_number
from taskqueue.protocol.messages import AnyRequest, Incoming, Outgoing
from taskqueue.protocol.tasks import Done, NewTasks
from taskqueue.server.network.router import Frame

FRAME_MS: Final = 0.05
"""Milliseconds that a small request takes."""
ITEM_MS: Final = 0.01
BYTE_MS: Final = 30e-6
"""Milliseconds that a batch takes per byte, or (ITEM_MS) per item, if that is more."""


def cost(request: AnyRequest, size: int) -> float:
    """Milliseconds that a request of ``size`` bytes takes, without its ``slow_ms``."""
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
    return Outgoing(frame.peer, reply, after_sync=False)
