"""Requests that a session has sent, or is about to send, and that are not answered yet."""

from __future__ import annotations

from math import inf

from taskqueue.protocol.fetchers import Release
from taskqueue.protocol.flows import FlowShow
from taskqueue.protocol.insight import Watch
from taskqueue.protocol.messages import AnyRequest
from taskqueue.protocol.operations import OperationShow
from taskqueue.protocol.projects import ProjectWait
from taskqueue.protocol.tasks import Done, TaskWait


class Call:
    """A request without an answer.

    Attributes:
        ends: tokens that its answer ends, those of a ``done`` or ``release``.
        waits: seconds that the daemon may take on purpose.
        due_at: when to send it, next.
        drops: how often the daemon has dropped it, as a new epoch told.
        tries: how often it was sent since it was last dropped.
    """

    __slots__ = ("drops", "due_at", "ends", "frame", "tries", "waits")

    def __init__(self, frame: bytes, ends: list[int], waits: float = 0.0) -> None:
        self.frame = frame
        self.ends = ends
        self.waits = waits
        self.due_at = -inf
        self.drops = self.tries = 0


def call_of(request: AnyRequest, frame: bytes) -> Call:
    """A request that is to be sent as these bytes."""
    if isinstance(request, Done):
        return Call(frame, [item.token if item else 0 for item in request.tasks])
    if isinstance(request, Release):
        return Call(frame, [ref.token for ref in request.leases])
    if isinstance(request, ProjectWait | TaskWait | OperationShow | FlowShow | Watch):
        return Call(frame, [], request.seconds)
    return Call(frame, [])
