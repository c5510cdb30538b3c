"""The two formats of an export: lines of JSON for people, MessagePack values for speed.

Both have the same fields (``export_lines``). In JSON a body is translated, which takes four steps to make sure that the
same bytes come back, and is written in base64 if they would not. In MessagePack it is written as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec
from msgspec import Raw, Struct
from msgspec.json import Decoder as JsonDecoder
from msgspec.msgpack import Decoder

from taskqueue.protocol.fields import NIL, Setting
from taskqueue.protocol.packed_json import ABSENT, as_json, as_msgpack
from taskqueue.store.tools.export_lines import FirstLine, LastLine, SliceLine, TaskLine, encode_line, from_json, in_json

Settings = Mapping[str, Setting]


class ExportFormat(NamedTuple):
    """How an export is encoded, as a sequence of parts: a line of JSON each, or a MessagePack map each.

    Attributes:
        unit: what people call a part.
        end: bytes that follow each part.
        last: bytes that begin the last part, and no other; ``history``: those that begin parts with the history of
            events.
        encode, decode_first, decode_task, decode_slice, decode_last: codecs of the parts.
        to_value: embeds a MessagePack value in a part, nil as ABSENT; ``to_msgpack`` gives the same bytes again.
        encode_settings: embeds a project's settings in a part; ``decode_settings`` gives them again.
    """

    unit: str
    end: bytes
    last: bytes
    history: tuple[bytes, ...]
    encode: Callable[[Struct], bytes]
    decode_first: Callable[[bytes], FirstLine]
    decode_task: Callable[[bytes], TaskLine]
    decode_slice: Callable[[bytes], SliceLine]
    decode_last: Callable[[bytes], LastLine]
    to_value: Callable[[bytes | Raw], Raw]
    to_msgpack: Callable[[Raw], Raw]
    encode_settings: Callable[[Settings], dict[str, Setting]]
    decode_settings: Callable[[Settings], dict[str, Setting]]


def _raw_value(value: bytes | Raw) -> Raw:
    return ABSENT if bytes(value) == bytes(NIL) else Raw(value)


def _packed_value(value: Raw) -> Raw:
    return NIL if value == ABSENT else value


JSON: Final = ExportFormat(
    "line",
    b"\n",
    b'{"tasks":',
    (b'{"history":',),
    encode_line,
    JsonDecoder(FirstLine).decode,
    JsonDecoder(TaskLine).decode,
    JsonDecoder(SliceLine).decode,
    JsonDecoder(LastLine).decode,
    as_json,
    as_msgpack,
    in_json,
    from_json,
)
MESSAGEPACK: Final = ExportFormat(
    "map",
    b"",
    b"\x81\xa5tasks",
    (b"\x83\xa7history", b"\x84\xa7history"),
    msgspec.msgpack.Encoder().encode,
    Decoder(FirstLine).decode,
    Decoder(TaskLine).decode,
    Decoder(SliceLine).decode,
    Decoder(LastLine).decode,
    _raw_value,
    _packed_value,
    dict,
    dict,
)


def detect_format(beginning: bytes) -> ExportFormat:
    """The format of a file with this beginning: JSON begins with a brace, and a MessagePack map never does."""
    return MESSAGEPACK if beginning[:1] >= b"\x80" else JSON
