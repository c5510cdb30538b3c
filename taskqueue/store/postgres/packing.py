"""Arrays of bytes as PostgreSQL takes them in binary: one statement gets all keys of a turn at once.

    dimensions 1 | flags 0 | oid of the type | count | lower bound 1 | (length, bytes) of each       4 bytes each number

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
"""Of the types; the last two are arrays of texts in UTF-8, and of 16 bytes each."""
INT4_OID: Final = 23

_HEADER: Final = Packing(">iiIii")
_EMPTY: Final = Packing(">iiI")
_NUMBER: Final = Packing(">q")

_CHECKSUM_BYTES: Final = 4

_LENGTHS: Final = [number.to_bytes(4, "big") for number in range(1024)]
"""Lengths as they are sent: most keys and values are short, and looking one up takes a third of packing it."""


def packed_array(items: Collection[bytes], oid: int = BYTEA_OID) -> bytes:
    """A ``bytea[]``, or an array of another type whose values are these bytes."""
    if not items:
        return _EMPTY.pack(0, 0, oid)
    parts = [_HEADER.pack(1, 0, oid, len(items), 1)]
    for item in items:
        length = len(item)
        parts.append(_LENGTHS[length] if length < len(_LENGTHS) else length.to_bytes(4, "big"))
        parts.append(item)
    return b"".join(parts)


def packed_checksums(checksums: Collection[int]) -> bytes:
    """An ``int4[]`` of 32 bits each, whose highest one the database takes for a sign."""
    if not checksums:
        return _EMPTY.pack(0, 0, INT4_OID)
    # Lengths and values in turns, without a step of the interpreter for each: a fifth of what struct takes.
    numbers = array("I", (_CHECKSUM_BYTES,)) * (2 * len(checksums))
    numbers[1::2] = array("I", checksums)
    return _HEADER.pack(1, 0, INT4_OID, len(checksums), 1) + big_endian(numbers)


def big_endian(numbers: array[int]) -> bytes:
    """Numbers of 32 bits as a database has them; they are swapped where they lie."""
    if byteorder == "little":
        numbers.byteswap()
    return numbers.tobytes()


def packed_number(number: int) -> bytes:
    """An ``int8``."""
    return _NUMBER.pack(number)


def unpacked_number(octets: bytes) -> int:
    """An integer of any width."""
    return int.from_bytes(octets, "big", signed=True)
