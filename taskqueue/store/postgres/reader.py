"""Read keys and ranges through one session, and compare each row with its checksum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from taskqueue.errors import Unreadable
from taskqueue.store.contract import Entry, Family
from taskqueue.store.damaged_rows import DamagedRow, DamagedRows
from taskqueue.store.postgres.checksums import MISMATCH, all_match, checksums, matches
from taskqueue.store.postgres.packing import packed_array, packed_number
from taskqueue.store.postgres.prefixes import Prefixes, Segment
from taskqueue.store.postgres.session import Session, Statement
from taskqueue.store.postgres.tables import table
from taskqueue.store.records.format import META
from taskqueue.store.records.layout import DATABASE_FAMILIES

Row = tuple[bytes, bytes, bytes | None]
"""Key, value and checksum."""


class Reader:
    """Reading half of a store; ``contract`` has the promises of its methods."""

    def __init__(self, session: Session, schema: str, prefixes: Prefixes, damaged: DamagedRows | None = None) -> None:
        """Make a reader.

        Args:
            damaged: rows to skip, to which rows with a wrong checksum are added; None if these raise Unreadable.

        A row of META with a wrong checksum always raises, because the store is unusable without it.
        """
        self._session = session
        self._prefixes = prefixes
        self._damaged = damaged
        names = {family: table(schema, family) for family in DATABASE_FAMILIES}
        self._get = {
            # The wanted keys come first: each of them is one search in the index.
            family: "select stored.key, stored.value, stored.crc from unnest($1::bytea[]) as wanted (key) "
            f"join {name} stored on stored.key = wanted.key"
            for family, name in names.items()
        }
        bounds = "where key >= $1::bytea and key < $2::bytea order by key"
        self._scan = {
            family: f"select key, value, crc from {name} {bounds} limit $3::int8" for family, name in names.items()
        }
        self._scan_back = {
            family: f"select key, value, crc from {name} {bounds} desc limit $3::int8" for family, name in names.items()
        }

    def get(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of keys; see ``Store.get``."""
        if not keys:
            return []
        stored = keys
        if family in self._prefixes.moved:
            stored = [self._prefixes.stored_key(family, key) for key in keys]
        rows = self._rows(Statement(self._get[family], (packed_array(stored),)))
        if stored is not keys:
            asked = dict(zip(stored, keys, strict=True))
            rows = [(asked[key], value, checksum) for key, value, checksum in rows]
        found = dict(self._sound(family, rows))
        return [found.get(key) for key in keys]

    def scan(self, family: Family, start: bytes, end: bytes, limit: int) -> list[Entry]:
        """Return entries in a range of keys; see ``Store.scan``."""
        return self._scanned(family, self._scan[family], list(self._prefixes.segments(family, start, end)), limit)

    def scan_back(self, family: Family, start: bytes, end: bytes, limit: int) -> list[Entry]:
        """Return entries in a range of keys, last ones first; see ``Store.scan_back``."""
        segments = list(self._prefixes.segments(family, start, end))[::-1]
        return self._scanned(family, self._scan_back[family], segments, limit, backwards=True)

    def _scanned(
        self, family: Family, sql: str, segments: Sequence[Segment], limit: int, *, backwards: bool = False
    ) -> list[Entry]:
        entries: list[Entry] = []
        for segment in segments:
            rest: Segment | None = segment
            while rest is not None and len(entries) < limit:
                found, rest = self._page(family, sql, rest, limit - len(entries), backwards)
                entries += found
        return entries

    def _page(
        self, family: Family, sql: str, segment: Segment, limit: int, backwards: bool
    ) -> tuple[list[Entry], Segment | None]:
        """Read entries of a segment, and return the rest of it; with skipped rows a short page is not the end."""
        start, end, prefix, stored_as = segment
        rows = self._rows(Statement(sql, (start, end, packed_number(limit))))
        rest = None
        if len(rows) == limit:
            last = rows[-1][0]
            rest = segment._replace(end=last) if backwards else segment._replace(start=last + b"\0")
        if prefix:
            rows = [(prefix + key[len(stored_as) :], value, checksum) for key, value, checksum in rows]
        return self._sound(family, rows), rest

    def _sound(self, family: Family, rows: list[Row]) -> list[Entry]:
        """Return the entries of rows that match their checksums, without skipped ones."""
        entries = [(key, value) for key, value, _ in rows]
        computed = checksums(family, [row[0] for row in rows], [row[1] for row in rows])
        if not all_match([row[2] for row in rows], computed):
            checked = zip(entries, rows, computed, strict=True)
            self._note(family, [entry for entry, row, checksum in checked if not matches(row[2], checksum)])
        return entries if self._damaged is None else self._damaged.without(family, entries)

    def _note(self, family: Family, entries: Sequence[Entry]) -> None:
        if self._damaged is None or family == META:
            raise Unreadable([(family, key, MISMATCH) for key, _ in entries])
        for key, value in entries:
            self._damaged.note(DamagedRow(family, key, value, MISMATCH))

    def _rows(self, statement: Statement) -> list[Row]:
        # Keys and values of these tables are never null.
        return cast(list[Row], self._session.run("read", [statement])[0])
