"""Result of a turn."""

from __future__ import annotations

from msgspec import Struct

from taskqueue.core.model.events import Event
from taskqueue.core.model.records import WriteSet
from taskqueue.protocol.messages import Outgoing


class TurnResult(Struct):
    """Result of a turn: a batch to write, messages to send after it, and events to emit."""

    writes: WriteSet
    outgoing: list[Outgoing]
    events: list[Event]
