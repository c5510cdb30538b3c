"""Checksums of rows: a CRC-32C over the family's name, the key and the value, in the column ``crc`` beside them.

A database's own checksums, where they are switched on, cover what its disk does to a page. These cover a row from the
daemon that wrote it to the one that reads it: what a statement, a restore or a broken memory has changed in between.
The key is that of the daemon, not what a moved prefix is stored as, so that a row that comes from another project does
not match either. A row without a checksum was written before there were any, and is not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import google_crc32c

from taskqueue.store.contract import Entry, Family
from taskqueue.store.records.layout import DATABASE_FAMILIES

MISMATCH: Final = "its checksum does not match"

_begun_with: Final[Mapping[Family, int]] = {
    family: google_crc32c.value(family.encode()) for family in DATABASE_FAMILIES
}


def checksums(family: Family, entries: Iterable[Entry]) -> list[int]:
    """The checksum of each entry."""
    extend, begun = google_crc32c.extend, _begun_with[family]
    # One call for both parts: to put them together costs a third of a second call.
    return [extend(begun, key + value) for key, value in entries]


def checksum(name: str, *parts: bytes) -> int:
    """The checksum of a row of another table, by the table's name."""
    return int(google_crc32c.value(b"".join((name.encode(), *parts))))


def matches(stored: bytes | None, computed: int) -> bool:
    """Whether a column's value, in binary, is this checksum, or the row has none."""
    return stored is None or int.from_bytes(stored, "big") == computed
