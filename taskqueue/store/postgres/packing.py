"""Pack arrays of bytes as PostgreSQL takes them in binary: one statement gets all keys of a turn at once.

    dimensions 1 | flags 0 | oid of the type | count | lower bound 1 | (length, bytes) of each     4 bytes each number

Source: ``array_recv`` of https://github.com/postgres/postgres/blob/master/src/backend/utils/adt/arrayfuncs.c
"""

from __future__ import annotations

from array import array
from collections.abc import Collection
from struct import Struct as Packing
from sys import byteorder
from typing import Final

BYTEA_OID: Final = 17
TEXT_OID: Final = 25
UUID_OID: Final = 2950
"""Oids of the types; values of the last two are texts in UTF-8, and 16 bytes each."""
INT4_OID: Final = 23

_HEADER: Final = Packing(">iiIii")
_EMPTY: Final = Packing(">iiI")
_NUMBER: Final = Packing(">q")

_CHECKSUM_BYTES: Final = 4

_LENGTHS: Final = [number.to_bytes(4, "big") for number in range(1024)]
"""Packed lengths: most keys and values are short, and looking a length up takes a third of packing it."""


def packed_array(items: Collection[bytes], oid: int = BYTEA_OID) -> bytes:
    """Pack a ``bytea[]``, or an array of another type whose values are these bytes."""
    if not items:
        return _EMPTY.pack(0, 0, oid)
    parts = [_HEADER.pack(1, 0, oid, len(items), 1)]
    for item in items:
        length = len(item)
        parts.append(_LENGTHS[length] if length < len(_LENGTHS) else length.to_bytes(4, "big"))
        parts.append(item)
    return b"".join(parts)


def packed_checksums(checksums: Collection[int]) -> bytes:
    """Pack an ``int4[]`` of 32 bits each, whose highest bit the database takes for a sign."""
    if not checksums:
        return _EMPTY.pack(0, 0, INT4_OID)
    # Lengths and values alternate without a step of the interpreter for each: a fifth of the time of struct.
    numbers = array("I", (_CHECKSUM_BYTES,)) * (2 * len(checksums))
    numbers[1::2] = array("I", checksums)
    return _HEADER.pack(1, 0, INT4_OID, len(checksums), 1) + big_endian(numbers)


def big_endian(numbers: array[int]) -> bytes:
    """Convert numbers of 32 bits to the database's byte order; ``numbers`` itself is swapped."""
    if byteorder == "little":
        numbers.byteswap()
    return numbers.tobytes()


def packed_number(number: int) -> bytes:
    """Pack an ``int8``."""
    return _NUMBER.pack(number)


def unpacked_number(octets: bytes) -> int:
    """Decode an integer of any width."""
    return int.from_bytes(octets, "big", signed=True)
