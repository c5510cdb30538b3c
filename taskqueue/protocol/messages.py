"""All messages of protocol 1: their types, from the modules of their nouns, and envelopes for them in the daemon."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, get_args

from msgspec import Raw, Struct

from taskqueue.protocol import daemon, exports, fetchers, flows, insight, operations, projects, slots, tasks
from taskqueue.protocol.base import AnyReply, ErrorReply, Request
from taskqueue.protocol.callers import EVERYBODY, Caller
from taskqueue.protocol.fetchers import HelloWanted, Select
from taskqueue.protocol.fields import Peer

AnyRequest = Request[AnyReply]
AnyOutgoing = AnyReply | Select | HelloWanted

REQUESTS: Final[tuple[type[AnyRequest], ...]] = tuple(
    kind
    for noun in (daemon, exports, fetchers, flows, insight, operations, projects, slots, tasks)
    for kind in vars(noun).values()
    if isinstance(kind, type) and issubclass(kind, Request) and kind.__module__ == noun.__name__
)


def _reply_to(kind: Any) -> Any:
    """The type in the base of a request, where a name stands for a type that its module declares further down."""
    (reply,) = get_args(kind.__orig_bases__[0])
    return reply if isinstance(reply, type) else vars(sys.modules[kind.__module__])[reply.__forward_arg__]


REPLY_TO: Final[Mapping[type, type[Any]]] = {kind: _reply_to(kind) for kind in REQUESTS}
"""By type of request."""

OUTGOING: Final[tuple[type[Struct], ...]] = (*dict.fromkeys(REPLY_TO.values()), ErrorReply, Select, HelloWanted)
"""Types of what the daemon says."""


class Flaw(NamedTuple):
    """Why an item of a batch was refused before the core saw it.

    Attributes:
        reason: for users, naming the field.
        code: one of the error codes.
    """

    reason: str
    code: str = "malformed"


NO_MAP: Final = Flaw("expected a map, got nil")

Flaws = dict[tuple[int, ...], Flaw]
"""Flaws of items by their path: (index,) or, for a follow-up, (parent, index)."""


class Incoming(Struct):
    """A request and its sender.

    Attributes:
        flaws: flaws of the items that are None in the request's batch.
        address: address of the sender's machine; empty if unknown.
        caller: owner of the key by which it came.
    """

    peer: Peer
    request: AnyRequest
    flaws: Flaws = {}
    address: str = ""
    caller: Caller = EVERYBODY


class Outgoing(Struct, gc=False):
    """A message and its destination.

    Attributes:
        after_sync: it acknowledges something that the turn stores, so it must not be sent before that is synced.
        session: the receiving session; empty: unknown.
    """

    peer: Peer
    message: AnyOutgoing | Raw
    after_sync: bool = True
    session: str = ""
