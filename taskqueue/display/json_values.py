"""Messages as plain values for JSON, as the option --json and the HTTP API show them.

Each field keeps its name in messages. Infinite numbers are text. A task's body or result that JSON can't represent, or
that is nested deeper than DEPTH_MOST, is shown as ``{"$msgpack": "base64"}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isinf
from typing import Any, Final

import msgspec

from taskqueue.protocol.base import Reply
from taskqueue.protocol.packed_json import ABSENT, as_json, wrapped

ENVELOPE: Final = ("type", *Reply.__struct_fields__)
"""Fields that identify a reply."""

DEPTH_MOST: Final = 100
"""Nesting depth that is shown. The daemon takes 770, but a reader has a thousand frames, and needs two a level."""


def without_envelope(reply: object) -> dict[str, Any]:
    """Return a reply as plain values, without the fields that every message has."""
    return {name: value for name, value in as_plain(reply).items() if name not in ENVELOPE}


def as_plain(value: object) -> Any:
    """Convert a message into plain values for JSON: every field, in order."""
    if isinstance(value, msgspec.Struct):
        return {field.encode_name: as_plain(getattr(value, field.name)) for field in msgspec.structs.fields(value)}
    if isinstance(value, Mapping):
        return {str(name): as_plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(part) for part in value]
    if isinstance(value, msgspec.Raw):
        return _plain_value(value)
    return str(value) if isinstance(value, float) and isinf(value) else value


def _plain_value(packed: msgspec.Raw) -> Any:
    written = as_json(packed)
    if written == ABSENT:
        return None
    value = json.loads(bytes(written))
    return wrapped(packed) if _is_deeper(value, DEPTH_MOST) else value


def _is_deeper(value: object, most: int) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(most == 0 or _is_deeper(part, most - 1) for part in parts)
