"""A read-only view of a store at one moment, whether or not a daemon is running.

It opens a ``FileSnapshot``: it takes no lock, changes nothing, and never sees later writes. An older format is refused,
because migrating it would be a change. A family that the store lacks, because an older version wrote it, is empty.

Memory: a small cache, and the changes in logs that are not in tables yet (``tuning.LOG_BYTES`` at most).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from tempfile import TemporaryDirectory
from typing import Final, cast

from msgspec import Struct
from rocksdict import AccessType, Cache, Rdict

from taskqueue.store.contract import Entry, Family
from taskqueue.store.files.file_snapshot import FileSnapshot
from taskqueue.store.records.format import EPOCH_KEY, META, refuse_other
from taskqueue.store.records.reading import stored_number
from taskqueue.store.rocksdb import engine, tuning

CACHE_BYTES: Final = 64 << 20
TEMPORARY: Final = "taskqueue-look-"
"""Prefix of the temporary folders that hold links to the snapshot's files."""


class TableStats(Struct, frozen=True):
    """RocksDB's statistics of a family's tables; bytes are before compression.

    Attributes:
        entries: number in the tables, overwritten values and ``deletions`` included.
        index_bytes, filter_bytes: bytes of the structures that find entries.
    """

    entries: int
    deletions: int
    index_bytes: int
    filter_bytes: int


_PART: Final = re.compile(r"([#a-z][#a-z ]*)(?: \([^)]*\))?=(\d+);")
_PARTS: Final = (
    "# entries",
    "# deletions",
    "index block size",
    "filter block size",
)
"""RocksDB's names of these statistics, in the order of TableStats."""


class ReadOnlyStore:
    """Read-only view of a store. Close it.

    Attributes:
        path: folder of the store.
        snapshot: snapshot of the store's files.
        epoch: newest epoch that was begun in the store.
    """

    def __init__(self, path: str) -> None:
        """Open the store in a folder.

        Raises:
            StoreError: there is none, or it can't be read.
            FormatError: it has another format.
        """
        self.path = path
        self.snapshot = FileSnapshot(path)
        self._folder = TemporaryDirectory(prefix=TEMPORARY)
        self._db: Rdict | None = None
        self._families: dict[Family, Rdict] = {}
        try:
            self._open()
            refuse_other(self, self.path)
            self.epoch = stored_number(self, EPOCH_KEY, 0)
        except BaseException:
            self.close()
            raise

    def get(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of keys; see ``Store.get``."""
        if not keys or family not in self._families:
            return [None] * len(keys)
        with engine.translated_errors(self.path, "read"):
            return cast(list[bytes | None], self._families[family].get(list(keys)))

    def scan(self, family: Family, start: bytes, end: bytes, limit: int) -> list[Entry]:
        """Return entries in a range of keys; see ``Store.scan``."""
        if family not in self._families:
            return []
        with engine.translated_errors(self.path, "read"):
            return engine.scan(self._families[family], start, end, limit)

    def keys(self, family: Family) -> int:
        """Estimate the number of keys in a family."""
        return self._number(family, "estimate-num-keys")

    def table_bytes(self, family: Family) -> int:
        """Return the bytes of a family's tables on disk."""
        return self._number(family, "live-sst-files-size")

    def log_bytes(self, family: Family) -> int:
        """Estimate the bytes of a family that are in the write-ahead log and memtables, but not in tables yet."""
        return self._number(family, "cur-size-all-mem-tables")

    def disk_bytes(self, family: Family) -> int:
        """Estimate the bytes of disk that a family takes."""
        return self.table_bytes(family) + self.log_bytes(family)

    def tables(self, family: Family) -> TableStats:
        """Read the statistics of a family's tables."""
        found = self._families.get(family)
        with engine.translated_errors(self.path, "read"):
            said = "" if found is None else found.property_value("rocksdb.aggregated-table-properties") or ""
        parts = dict(_PART.findall(said))
        return TableStats(*(int(parts.get(name, 0)) for name in _PARTS))

    def levels(self) -> dict[int, list[int]]:
        """Return the bytes of each table, by level of the LSM tree."""
        with engine.translated_errors(self.path, "read"):
            return engine.levels(self._families[META])

    def close(self) -> None:
        """Release the snapshot and everything else."""
        self._families.clear()
        if self._db is not None:
            with engine.translated_errors(self.path, "close"):
                self._db.close()
            self._db = None
        self._folder.cleanup()
        self.snapshot.close()

    def _open(self) -> None:
        cache = Cache(CACHE_BYTES)
        self.snapshot.link_to(self._folder.name)
        with engine.translated_errors(self.path, "read"):
            options = {name: tuning.for_family(name, cache) for name in Rdict.list_cf(self._folder.name)}
            self._db = Rdict(self._folder.name, tuning.database(), options, AccessType.read_only(False))
            self._families = {name: self._db.get_column_family(name) for name in options}

    def _number(self, family: Family, name: str) -> int:
        found = self._families.get(family)
        with engine.translated_errors(self.path, "read"):
            return 0 if found is None else found.property_int_value(f"rocksdb.{name}") or 0
