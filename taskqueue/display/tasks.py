"""Texts of a task's error, body and result, for the terminal and the dashboard.

Bodies and results are any MessagePack that a producer or a fetcher has packed. ``packed_text`` makes one line of it,
``packed_page`` lines for reading:

    {                                       Values are written as JSON; what JSON can't represent is a text in angle
      "url": "https://example.com/",        brackets: bytes as their number, and the first of them in hex.
      "page": "<1,024 bytes: 89 50 4e 47 …>"
    }

A value that is only bytes becomes a table of bytes. The size of what the dashboard shows is bounded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgpack

from taskqueue.protocol.choices import ParentFailure
from taskqueue.protocol.tasks import TaskRow
from taskqueue.protocol.values import Attempt
from taskqueue.texts.error_texts import kind_in
from taskqueue.texts.visible_text import visible_lines

if TYPE_CHECKING:
    from msgspec import Raw


PARENT_WORDS: Final[Mapping[ParentFailure, str]] = {
    "fail": "",
    "run": "it runs even if one fails",
    "wait": "if one fails, it waits until that succeeds",
    "only": "it runs only if one fails",
}
"""Words for the reaction of a task to a failed parent; empty for the default."""


def error_line(said: Attempt | TaskRow) -> str:
    """Return the kind of an error; from older daemons, the line of its text that says best what went wrong."""
    return said.kind or kind_in(said.error)


def packed_text(raw: Raw) -> str:
    """Format a packed value as JSON, or as Python writes it if JSON can't; invalid UTF-8 shows its bytes as \\xff.

    Empty if the value is nil.
    """

    packed = bytes(raw)
    try:
        value = msgpack.unpackb(packed, unicode_errors="backslashreplace", strict_map_key=False, use_list=False)
    except (ValueError, TypeError):  # nested too deep, or a map as the key of a map
        return f"{len(packed)} bytes that can't be shown"
    try:
        return "" if value is None else json.dumps(value, ensure_ascii=False, default=repr)
    except TypeError:  # keys that JSON does not have
        return repr(value)


DECODED_MOST: Final = 1 << 20
"""Longest packed value that is decoded, in bytes; longer ones are shown as bytes."""

SHOWN_MOST: Final = 64 << 10
"""Longest text that is shown, in characters."""

BYTES_SHOWN: Final = 512
"""Bytes shown of a value that is only bytes, at most."""

INLINE_BYTES: Final = 24
"""Bytes shown of bytes inside another value, at most."""

HEX_ROW_BYTES: Final = 16

DEPTH_MOST: Final = 64
"""Nesting depth that is shown; deeper values are shown as their number."""


class PackedPage(NamedTuple):
    """Packed value for reading.

    Attributes:
        text: its lines; empty if the value is nil.
        size: bytes as MessagePack.
        binary: True if the lines are a table of bytes.
        cut: True if not all of it is shown.
    """

    text: str
    size: int
    binary: bool = False
    cut: bool = False


def packed_page(raw: Raw) -> PackedPage:
    """Format a packed value for reading."""
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
    """Format bytes as rows of sixteen: offset, hex, ASCII."""
    return "\n".join(_row(some, start) for start in range(0, len(some), HEX_ROW_BYTES))


def _row(some: bytes, start: int) -> str:
    row = some[start : start + HEX_ROW_BYTES]
    letters = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in row)
    return f"{start:06x}  {row.hex(' '):<{3 * HEX_ROW_BYTES - 1}}  {letters}"


def _of_bytes(some: bytes, size: int) -> PackedPage:
    return PackedPage(hex_table(some[:BYTES_SHOWN]), size, binary=True, cut=len(some) > BYTES_SHOWN)


def _first(parts: Iterator[str]) -> tuple[str, bool]:
    """Join parts up to the longest text that is shown; return it, and whether it was cut."""
    taken: list[str] = []
    room = SHOWN_MOST
    for part in parts:
        taken.append(part[:room])
        room -= len(part)
        if room < 0:
            return "".join(taken), True
    return "".join(taken), False


def _plain(value: Any, depth: int) -> Any:
    """Convert into values that JSON has."""
    if isinstance(value, bytes):
        return _bytes_text("bytes", value)
    if isinstance(value, msgpack.ExtType):
        return _bytes_text(f"bytes of type {value.code}", value.data)
    if isinstance(value, Mapping):
        return (
            {_key(key): _plain(each, depth - 1) for key, each in value.items()} if depth else f"<{len(value):,} keys>"
        )
    if isinstance(value, tuple):
        return [_plain(each, depth - 1) for each in value] if depth else f"<{len(value):,} values>"
    return value if value is None or isinstance(value, str | int | float) else f"<{value}>"


def _key(key: Any) -> str:
    return key if isinstance(key, str) else f"<{key!r}>"


def _bytes_text(what: str, some: bytes) -> str:
    more = " …" if len(some) > INLINE_BYTES else ""
    return f"<{len(some):,} {what}: {some[:INLINE_BYTES].hex(' ')}{more}>"
