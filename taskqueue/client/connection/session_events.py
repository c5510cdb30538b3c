"""What a session makes of the frames that it receives: the events that its client acts on."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Raw

from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.fetchers import Welcome
from taskqueue.protocol.fields import Assignment
from taskqueue.protocol.messages import AnyReply


class Answered(NamedTuple):
    """Request ``n`` has its answer."""

    n: int
    reply: AnyReply


class HandedOut(NamedTuple):
    """Tasks for this fetcher; none if the message only filled a gap. ``fetch``: what their projects say of it."""

    tasks: list[Assignment]
    fetch: dict[str, Raw]


class Welcomed(NamedTuple):
    """A hello was answered.

    Attributes:
        restarted: the scheduler that answered has started since the last welcome.
        ended: tokens that were held, and whose leases the daemon has ended: their time was over, or an operator
            cancelled the task.
    """

    welcome: Welcome
    restarted: bool
    ended: list[int]


class Gap(NamedTuple):
    """A ``select`` came that is not the next: the missing ones are asked for."""

    expected: int
    number: int


class Refused(NamedTuple):
    """The daemon could not take something that it can't name (``n`` 0), or a hello, or anything at the moment."""

    error: ErrorReply


class Renewed(NamedTuple):
    """A hello was refused because somebody else speaks in the session, so another session has taken its place."""

    error: ErrorReply


class Unreadable(NamedTuple):
    """A frame that is no message of this protocol."""

    reason: str


Event = Answered | HandedOut | Welcomed | Gap | Refused | Renewed | Unreadable
