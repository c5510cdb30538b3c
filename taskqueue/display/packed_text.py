"""Bodies and results for people: what anybody may have packed as MessagePack, in one line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from msgspec import Raw


def packed_text(raw: Raw) -> str:
    """As JSON, or as Python writes what JSON can't say; text that is no UTF-8 with the bytes that are none as \\xff.

    Empty if it is nil.
    """
    import msgpack

    packed = bytes(raw)
    try:
        value = msgpack.unpackb(packed, unicode_errors="backslashreplace", strict_map_key=False, use_list=False)
    except (ValueError, TypeError):  # nested too deep, or a map as the key of a map
        return f"{len(packed)} bytes that nobody can show"
    try:
        return "" if value is None else json.dumps(value, ensure_ascii=False, default=repr)
    except TypeError:  # keys that JSON has not
        return repr(value)
