"""Reads keys and ranges, through one session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from taskqueue.store.contract import Entry, Family
from taskqueue.store.postgres.packing import packed_array, packed_number
from taskqueue.store.postgres.prefixes import Prefixes, Segment
from taskqueue.store.postgres.schema import table
from taskqueue.store.postgres.session import Session, Statement
from taskqueue.store.records.layout import FAMILIES


class Reader:
    """The reading half of a store; ``contract`` has what its methods promise."""

    def __init__(self, session: Session, schema: str, prefixes: Prefixes) -> None:
        self._session = session
        self._prefixes = prefixes
        names = {family: table(schema, family) for family in FAMILIES}
        self._get = {
            # The keys that are looked for come first: each of them is one search in the index.
            family: "select stored.key, stored.value from unnest($1::bytea[]) as wanted (key) "
            f"join {name} stored on stored.key = wanted.key"
            for family, name in names.items()
        }
        bounds = "where key >= $1::bytea and key < $2::bytea order by key"
        self._scan = {
            family: f"select key, value from {name} {bounds} limit $3::int8" for family, name in names.items()
        }
        self._scan_back = {
            family: f"select key, value from {name} {bounds} desc limit $3::int8" for family, name in names.items()
        }

    def get(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        """See ``Store.get``."""
        if not keys:
            return []
        stored = keys
        if family in self._prefixes.moved:
            stored = [self._prefixes.stored_key(family, key) for key in keys]
        found = dict(self._entries(Statement(self._get[family], (packed_array(stored),))))
        return [found.get(key) for key in stored]

    def scan(self, family: Family, start: bytes, end: bytes, limit: int) -> list[Entry]:
        """See ``Store.scan``."""
        return self._scanned(self._scan[family], list(self._prefixes.segments(family, start, end)), limit)

    def scan_back(self, family: Family, start: bytes, end: bytes, limit: int) -> list[Entry]:
        """See ``Store.scan_back``."""
        return self._scanned(self._scan_back[family], list(self._prefixes.segments(family, start, end))[::-1], limit)

    def _scanned(self, sql: str, segments: Sequence[Segment], limit: int) -> list[Entry]:
        entries: list[Entry] = []
        for start, end, prefix, stored_as in segments:
            left = limit - len(entries)
            if left <= 0:
                break
            found = self._entries(Statement(sql, (start, end, packed_number(left))))
            if prefix:
                found = [(prefix + key[len(stored_as) :], value) for key, value in found]
            entries += found
        return entries

    def _entries(self, statement: Statement) -> list[Entry]:
        # No column of these tables may be null.
        return cast(list[Entry], self._session.run("read", [statement])[0])
