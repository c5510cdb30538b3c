"""Rows of a store that can't be used: found by their checksums, or because they, or what they need, can't be decoded.

Reads pass over them, and whoever reads decides what becomes of them. Only a store in a database has any: RocksDB's own
checksums are of whole blocks, and a block that does not match is an error of the read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from taskqueue.store.contract import Entry, Family


class DamagedRow(NamedTuple):
    """A row; ``reason`` says what is wrong with it. ``value`` is empty if it was not read."""

    family: Family
    key: bytes
    value: bytes
    reason: str


class DamagedRows:
    """The rows that reads of one store pass over, each once, in the order in which they were found."""

    def __init__(self) -> None:
        self._rows: dict[tuple[Family, bytes], DamagedRow] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[DamagedRow]:
        return iter(self._rows.values())

    def note(self, row: DamagedRow) -> None:
        """Pass over the row from now on."""
        self._rows.setdefault((row.family, row.key), row)

    def has(self, family: Family, key: bytes) -> bool:
        """Whether the row at a key is passed over."""
        return (family, key) in self._rows

    def without(self, family: Family, entries: list[Entry]) -> list[Entry]:
        """The entries that are not passed over."""
        if not self._rows:
            return entries
        return [entry for entry in entries if (family, entry[0]) not in self._rows]

    def forget(self, written: Mapping[Family, Collection[bytes]]) -> None:
        """Read rows with these keys again: they have been written anew, or deleted."""
        for place in [place for place in self._rows if place[1] in written.get(place[0], ())]:
            del self._rows[place]

    def clear(self) -> None:
        """Pass over none any more: they have been removed."""
        self._rows.clear()
