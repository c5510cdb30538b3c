"""MessagePack values as JSON, for files and programs without MessagePack.

A value that JSON can't represent exactly (bytes, keys that are not text, infinite numbers, numbers in longer encodings
than they need) is written as a whole as {"$msgpack": "base64"}, so that decoding it gives the same bytes.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from typing import Final

import msgspec
from msgspec import Raw

from taskqueue.protocol.fields import NIL

PACKED: Final = "$msgpack"

ABSENT: Final = Raw()

_encode_json: Final = msgspec.json.Encoder().encode
_decode_json: Final = msgspec.json.Decoder().decode
_unpack: Final = msgspec.msgpack.Decoder().decode
_skip: Final = msgspec.msgpack.Decoder(Raw).decode
_pack: Final = msgspec.msgpack.Encoder().encode


def as_json(packed: bytes | Raw) -> Raw:
    """Convert a MessagePack value to JSON that converts back to the same bytes; nil becomes ABSENT."""
    content = bytes(packed)
    if content == bytes(NIL):
        return ABSENT
    try:
        value = _encode_json(_unpack(content))
        if PACKED.encode() not in value and _pack(_decode_json(value)) == content:
            return Raw(value)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        pass  # a value that JSON lacks
    return Raw(_encode_json(wrapped(content)))


def wrapped(packed: bytes | Raw) -> dict[str, str]:
    """Wrap a MessagePack value that JSON can't represent, in base64."""
    return {PACKED: b64encode(packed).decode()}


def as_msgpack(value: Raw) -> Raw:
    """Convert JSON made by ``as_json`` back to the MessagePack value.

    Raises:
        ValueError, OverflowError: the value is not such JSON, or has a number that MessagePack lacks.
    """
    if value == ABSENT:
        return NIL
    decoded = _decode_json(value)
    if not isinstance(decoded, dict) or decoded.keys() != {PACKED}:
        return Raw(_pack(decoded))
    try:
        content = b64decode(decoded[PACKED], validate=True)
        _skip(content)
    except (binascii.Error, TypeError, msgspec.MsgspecError) as error:
        raise ValueError(f"{PACKED} is not a MessagePack value in base64: {error}") from None
    return Raw(content)


def packed(value: object) -> Raw:
    """Encode a decoded body or result as MessagePack; a Raw value, which could not be decoded, stays as it is."""
    return value if isinstance(value, Raw) else Raw(msgspec.msgpack.encode(value))
