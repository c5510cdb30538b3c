"""Requests that are accepted while the disk of the store is nearly full, and outcomes that are stored.

Rules:
1. Requests that let the store grow and end nothing are refused, parts of reports included; operators make room, or set
   settings in the config file.
2. ``done``, ``extend`` and ``release`` are accepted, and requests that make room: cancel, clear, delete.
3. Outcomes are stored only of requests that ended or extended a lease, and of new operations. All others have the same
   effect when they are repeated; so a peer that sends them from ever more sessions can't fill the rest of the disk.
"""

from __future__ import annotations

from typing import Final, NoReturn

from taskqueue.errors import Rejected
from taskqueue.protocol.base import AnyReply
from taskqueue.protocol.fetchers import TokensReply
from taskqueue.protocol.operations import OperationReply
from taskqueue.protocol.tasks import DoneReply

REASON: Final = "the disk of the store is nearly full: make room, or lower store.min_free, then repeat the request"


def refuse() -> NoReturn:
    """Refuse a request that lets the store grow (rule 1).

    Raises:
        Rejected: always.
    """
    raise Rejected("disk-full", REASON)


def is_kept(reply: AnyReply) -> bool:
    """Return whether the outcome of an accepted request is stored (rule 3)."""
    if isinstance(reply, DoneReply):
        return "done" in reply.outcomes
    return bool(reply.counted) if isinstance(reply, TokensReply) else isinstance(reply, OperationReply)
