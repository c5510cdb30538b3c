"""Texts of a task's error, body and result, for a terminal and for a page.

Bodies and results may be any MessagePack that a producer or a fetcher has packed. ``packed_text`` makes one line of it,
``packed_page`` lines for reading:

    {                                       Values are written as JSON has them; what JSON can't say stands as a text
      "url": "https://example.com/",        in angle brackets: bytes by their number and the first of them in hex.
      "page": "<1,024 bytes: 89 50 4e 47 …>"
    }

A value that is nothing but bytes is a table of them. What a page shows is bounded, whatever was packed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgpack

from taskqueue.error_texts import kind_in
from taskqueue.protocol.tasks import TaskRow
from taskqueue.protocol.values import Attempt
from taskqueue.visible_text import visible_lines

if TYPE_CHECKING:
    from msgspec import Raw


def error_line(said: Attempt | TaskRow) -> str:
    """What the error is about; of a daemon that does not say it, what its text tells."""
    return said.kind or kind_in(said.error)


def packed_text(raw: Raw) -> str:
    """As JSON, or as Python writes what JSON can't say; text that is no UTF-8 with the bytes that are none as \\xff.

    Empty if it is nil.
    """

    packed = bytes(raw)
    try:
        value = msgpack.unpackb(packed, unicode_errors="backslashreplace", strict_map_key=False, use_list=False)
    except (ValueError, TypeError):  # nested too deep, or a map as the key of a map
        return f"{len(packed)} bytes that nobody can show"
    try:
        return "" if value is None else json.dumps(value, ensure_ascii=False, default=repr)
    except TypeError:  # keys that JSON has not
        return repr(value)


DECODED_MOST: Final = 1 << 20
"""Bytes; more are not decoded, but shown as bytes."""

SHOWN_MOST: Final = 64 << 10
"""Characters of text."""

BYTES_SHOWN: Final = 512
"""Of a value that is nothing but bytes."""

INLINE_BYTES: Final = 24
"""Of bytes inside another value."""

HEX_ROW_BYTES: Final = 16

DEPTH_MOST: Final = 64
"""Values inside values that are shown; further down there is only how many there are."""


class PackedPage(NamedTuple):
    """A value for reading.

    Attributes:
        text: its lines; empty: it is nil, there is nothing to be read.
        size: in bytes, as MessagePack.
        binary: the lines are a table of bytes.
        cut: there is more of it.
    """

    text: str
    size: int
    binary: bool = False
    cut: bool = False


def packed_page(raw: Raw) -> PackedPage:
    """The value for reading."""
    packed = bytes(raw)
    if len(packed) > DECODED_MOST:
        return _of_bytes(packed, len(packed))
    try:
        value = msgpack.unpackb(packed, unicode_errors="backslashreplace", strict_map_key=False, use_list=False)
    except (ValueError, TypeError):  # nested too deep, or a map as the key of a map
        return _of_bytes(packed, len(packed))
    if value is None:
        return PackedPage("", len(packed))
    if isinstance(value, bytes):
        return _of_bytes(value, len(packed))
    text, cut = _first(json.JSONEncoder(ensure_ascii=False, indent=2).iterencode(_plain(value, DEPTH_MOST)))
    return PackedPage(visible_lines(text), len(packed), cut=cut)


def hex_table(some: bytes) -> str:
    """Rows of sixteen bytes: place, hex, what of it is ASCII."""
    return "\n".join(_row(some, start) for start in range(0, len(some), HEX_ROW_BYTES))


def _row(some: bytes, start: int) -> str:
    row = some[start : start + HEX_ROW_BYTES]
    letters = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in row)
    return f"{start:06x}  {row.hex(' '):<{3 * HEX_ROW_BYTES - 1}}  {letters}"


def _of_bytes(some: bytes, size: int) -> PackedPage:
    return PackedPage(hex_table(some[:BYTES_SHOWN]), size, binary=True, cut=len(some) > BYTES_SHOWN)


def _first(parts: Iterator[str]) -> tuple[str, bool]:
    """The text so far as it is shown, and whether there is more of it."""
    taken: list[str] = []
    room = SHOWN_MOST
    for part in parts:
        taken.append(part[:room])
        room -= len(part)
        if room < 0:
            return "".join(taken), True
    return "".join(taken), False


def _plain(value: Any, depth: int) -> Any:
    """As values that JSON has."""
    if isinstance(value, bytes):
        return _told("bytes", value)
    if isinstance(value, msgpack.ExtType):
        return _told(f"bytes of type {value.code}", value.data)
    if isinstance(value, Mapping):
        return (
            {_key(key): _plain(each, depth - 1) for key, each in value.items()} if depth else f"<{len(value):,} keys>"
        )
    if isinstance(value, tuple):
        return [_plain(each, depth - 1) for each in value] if depth else f"<{len(value):,} values>"
    return value if value is None or isinstance(value, str | int | float) else f"<{value}>"


def _key(key: Any) -> str:
    return key if isinstance(key, str) else f"<{key!r}>"


def _told(what: str, some: bytes) -> str:
    more = " …" if len(some) > INLINE_BYTES else ""
    return f"<{len(some):,} {what}: {some[:INLINE_BYTES].hex(' ')}{more}>"
