"""What is still taken while the disk of the store is nearly full, and what of it is kept.

Rules:
1. What lets the store grow and ends nothing is refused, a part of a report included; people make room, or say settings
   in the config file.
2. ``done``, ``extend`` and ``release`` are taken, and what makes room: cancelling, clearing, deleting.
3. Outcomes are kept only of what ended or prolonged a lease, and of new operations. All else that is taken has the same
   effect when it is repeated; so a peer that says it from ever more sessions can't fill what is left of the disk.
"""

from __future__ import annotations

from typing import Final, NoReturn

from taskqueue.errors import Rejected
from taskqueue.protocol.base import AnyReply
from taskqueue.protocol.fetchers import TokensReply
from taskqueue.protocol.operations import OperationReply
from taskqueue.protocol.tasks import DoneReply

REASON: Final = "the disk of the store is nearly full: make room, or lower store.min_free, and ask again"


def refuse() -> NoReturn:
    """Refuse a request that lets the store grow (rule 1).

    Raises:
        Rejected: always.
    """
    raise Rejected("disk-full", REASON)


def is_kept(reply: AnyReply) -> bool:
    """Whether the outcome of an accepted request is stored (rule 3)."""
    if isinstance(reply, DoneReply):
        return "done" in reply.outcomes
    return bool(reply.counted) if isinstance(reply, TokensReply) else isinstance(reply, OperationReply)
