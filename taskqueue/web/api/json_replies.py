"""Replies of the daemon as JSON of the interface.

As ``--json`` shows them (``display.json_values``), but that numbers of up to 63 bits are text, because JavaScript and
others read numbers as floats, which are exact up to 2^53 only.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from taskqueue.display.json_values import as_plain
from taskqueue.protocol.base import Reply
from taskqueue.protocol.fetchers import TokensReply
from taskqueue.protocol.insight import LogEntry, LogReply
from taskqueue.protocol.operations import OperationView
from taskqueue.web.api.lease_objects import Handed

AS_TEXT: Final[frozenset[tuple[type[msgspec.Struct], str]]] = frozenset(
    {(OperationView, "id"), (LogEntry, "number"), (LogReply, "next"), (TokensReply, "stale"), (Handed, "token")}
)
"""Fields whose numbers have up to 63 bits."""

ENVELOPE: Final = frozenset(Reply.__struct_fields__)


def json_of(value: object) -> Any:
    """A reply, or a part of one, as plain values."""
    if isinstance(value, msgspec.Struct):
        return _object(value)
    if isinstance(value, dict):
        return {str(name): json_of(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [json_of(part) for part in value]
    return as_plain(value)


def _object(value: msgspec.Struct) -> dict[str, Any]:
    kind, hidden = type(value), ENVELOPE if isinstance(value, Reply) else ()
    return {
        field.encode_name: _text(getattr(value, field.name))
        if (kind, field.name) in AS_TEXT
        else json_of(getattr(value, field.name))
        for field in msgspec.structs.fields(kind)
        if field.name not in hidden
    }


def _text(found: Any) -> Any:
    return [str(each) for each in found] if isinstance(found, list) else str(found)
