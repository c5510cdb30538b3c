"""Checksums of rows: a CRC-32C over the family's name, the key and the value, in the column ``crc`` beside them.

A database's own checksums, where they are switched on, cover changes of a page on its disk. These cover a row from the
daemon that wrote it to the daemon that reads it, so they also find changes by a statement, a restore or broken memory.
The key is the daemon's, not the stored one with a moved prefix, so a row that comes from another project does not match
either. A row without a checksum was written before there were checksums, and is not checked.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from operator import add
from typing import Final

import google_crc32c

from taskqueue.store.contract import Family
from taskqueue.store.postgres.packing import big_endian
from taskqueue.store.records.layout import DATABASE_FAMILIES

MISMATCH: Final = "its checksum does not match"

_begun_with: Final[Mapping[Family, int]] = {
    family: google_crc32c.value(family.encode()) for family in DATABASE_FAMILIES
}


def checksums(family: Family, keys: Iterable[bytes], values: Iterable[bytes]) -> list[int]:
    """Compute the checksum of each entry from its key and value."""
    # All in C: 0.12 µs an entry, where a comprehension takes 0.17, and a call for each part 0.26.
    return list(map(google_crc32c.extend, repeat(_begun_with[family]), map(add, keys, values)))


def checksum(name: str, *parts: bytes) -> int:
    """Compute the checksum of a row of another table, from the table's name and the parts."""
    return int(google_crc32c.value(b"".join((name.encode(), *parts))))


def matches(stored: bytes | None, computed: int) -> bool:
    """Whether a column's binary value is this checksum, or null."""
    return stored is None or int.from_bytes(stored, "big") == computed


def all_match(stored: Sequence[bytes | None], computed: Sequence[int]) -> bool:
    """Whether all values of a column are these checksums, or null; they are compared at once if none is null."""
    try:
        return b"".join(stored) == big_endian(array("I", computed))  # type: ignore[arg-type]
    except TypeError:
        return all(map(matches, stored, computed))
