"""What every reply has. The replies themselves: ``replies``."""

from __future__ import annotations

from msgspec import Struct

from taskqueue.protocol.fields import PROTOCOL


class Reply(Struct, kw_only=True, tag_field="type"):
    """Fields of every reply: ``n`` is the number of the request."""

    v: int = PROTOCOL
    n: int
