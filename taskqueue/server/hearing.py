"""From a frame to a typed request, or to the error reply that says why not. Pure."""

from __future__ import annotations

from taskqueue.core.replies import ErrorReply, Said
from taskqueue.core.requests import Heard
from taskqueue.errors import Rejected
from taskqueue.server.router import Frame
from taskqueue.wire import decode_request, request_number


def hear(frame: Frame, max_message: int) -> Heard:
    """The request in a frame.

    Raises:
        Rejected: there is none, or it is too long.
    """
    if frame.parts != 1:
        raise Rejected("malformed", f"a message is one frame after the routing id, not {frame.parts}")
    request, flaws = decode_request(frame.payload, max_message)
    return Heard(frame.peer, request, flaws)


def refusal(frame: Frame, why: Rejected) -> Said:
    """The reply to a frame that was refused; it waits for nothing."""
    reply = ErrorReply(n=request_number(frame.payload), code=why.code, reason=why.reason)
    return Said(frame.peer, reply, kept=False)
