"""A Store in RocksDB, embedded: one directory, one column family a Family, one process at a time.

Writes go to the write-ahead log without fsync: the operating system has them, so they survive the process. ``sync``
syncs the log by ``flush_wal``, which releases the GIL; a synced ``write`` would keep it.

A failed write leaves RocksDB read-only until it is opened again, so after a StoreError close this store and open
another.

``tuning`` has its options.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from os import PathLike, fspath, makedirs
from os.path import exists, join
from typing import Final, cast

from rocksdict import Cache, ColumnFamily, Rdict, WriteBatch

from taskqueue.errors import StoreError, TaskQueueError
from taskqueue.store.contract import Batch, Family
from taskqueue.store.files import synced_mark
from taskqueue.store.files.folder import Folder, log_bytes
from taskqueue.store.files.log_recovery import recover_logs
from taskqueue.store.files.synced_mark import SyncedMarkWriter, mark_of_opening
from taskqueue.store.records.epochs import epoch_batch, next_epoch, refuse_older, skip_epochs
from taskqueue.store.records.format import EPOCH_KEY, META, Migrations, refuse_newer, upgrade
from taskqueue.store.records.layout import FAMILIES, LAST_KEY
from taskqueue.store.records.migrations import MIGRATIONS
from taskqueue.store.records.reading import stored_number
from taskqueue.store.rocksdb import engine, tuning

CACHE_BYTES: Final = 128 << 20

DEFAULT: Final = "default"
"""Family that RocksDB creates by itself; it stays empty."""


class RocksStore:
    """Store in a directory; ``contract`` has the promises of its methods.

    Attributes:
        damage: damage that was found in its logs at the opening and cut out of them; None if there was none.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        cache_bytes: int = CACHE_BYTES,
        migrations: Migrations = MIGRATIONS,
        boot_id: str = "",
        has_failed: bool = False,
        accept_damage: bool = False,
    ) -> None:
        """Open the store in a directory, which is created if it is absent.

        Args:
            cache_bytes: memory for blocks, indexes and filters.
            boot_id: identifies the current boot of the machine; empty if unknown.
            has_failed: the store is opened again because a write of this process has failed.
            accept_damage: go on without the changes that a damaged log has lost.

        Raises:
            StoreError: it can't be opened; for instance, another process has it.
            Damaged: synced changes are lost; nothing is changed.
            DiskError: the disk refused, which may pass.
            FormatError: its format is newer than this version's, or too old to be migrated.
        """
        self._path = fspath(path)
        self._cache = Cache(cache_bytes)
        self._families: dict[Family, Rdict] = {}
        self._handles: dict[Family, ColumnFamily] = {}
        self._marker: SyncedMarkWriter | None = None
        self._db = self._open(boot_id, has_failed=has_failed, accept_damage=accept_damage)
        try:
            self._opened_seq = self._db.latest_sequence_number()
            self._bind()
            if META not in self._families:
                self._finish_making()
            refuse_newer(self, self._path)
            self._add_families()
            self._epoch = self._stored_epoch()
            upgrade(self, self._path, migrations)
            if self.damage is not None and self.damage.is_unexplained:
                skip_epochs(self, self._path)
            self._mark(boot_id)
        except TaskQueueError:
            with suppress(StoreError):
                self.close()
            raise

    def begin(self) -> int:
        epoch = next_epoch(self._stored_epoch(), self._path)
        self._write(epoch_batch(epoch))
        self.sync()
        self._epoch = epoch
        return epoch

    def get(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        if not keys:
            return []
        with engine.translated_errors(self._path, "read"):
            return cast(list[bytes | None], self._families[family].get(list(keys)))

    def scan(self, family: Family, start: bytes, end: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        with engine.translated_errors(self._path, "read"):
            return engine.scan(self._families[family], start, end, limit)

    def scan_back(self, family: Family, start: bytes, end: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        with engine.translated_errors(self._path, "read"):
            return engine.scan(self._families[family], start, end, limit, backwards=True)

    def write(self, epoch: int, batch: Batch) -> None:
        refuse_older(epoch, self._epoch, self._path)
        self._write(batch)

    def sync(self) -> None:
        with engine.translated_errors(self._path, "sync"):
            seq = self._db.latest_sequence_number()
            self._db.flush_wal(True)
        if self._marker is not None:
            self._marker.advance(seq)

    def levels(self) -> dict[int, list[int]]:
        with engine.translated_errors(self._path, "read"):
            return engine.levels(self._families[META])

    def log_bytes(self) -> int:
        with engine.translated_errors(self._path, "read"):
            return log_bytes(self._path)

    def is_busy(self) -> bool:
        """Whether RocksDB is flushing or compacting in the background, or about to."""
        running = ("rocksdb.num-running-flushes", "rocksdb.num-running-compactions")
        pending = ("rocksdb.mem-table-flush-pending", "rocksdb.compaction-pending")
        with engine.translated_errors(self._path, "read"):
            return any(self._db.property_int_value(name) for name in running) or any(
                family.property_int_value(name) for family in self._families.values() for name in pending
            )

    def compact(self) -> None:
        """Merge all tables, dropping overwritten and deleted values; takes at most as long as copying the store.

        Raises:
            StoreError: it failed; nothing is lost.
        """
        with engine.translated_errors(self._path, "compact"):
            for family in self._families.values():
                family.flush()
                family.compact_range(None, None)

    def close(self) -> None:
        # RocksDB releases its lock only when the last reference to any of its families is gone.
        self._handles.clear()
        self._families.clear()
        if self._marker is not None:
            self._marker.close()
        with engine.translated_errors(self._path, "close"):
            self._db.close()

    def _write(self, batch: Batch) -> None:
        with engine.translated_errors(self._path, "write"):
            self._db.write(self._native(batch))

    def _native(self, batch: Batch) -> WriteBatch:
        """Convert a batch for RocksDB, which applies it in the order of filling: drops, deletes, puts."""
        native = WriteBatch(raw_mode=True)
        for family, start, end in batch.drops:
            native.delete_range(start, end, self._handles[family])
        # ``del`` and ``=`` take a seventh less than ``delete`` and ``put`` with the family each time. Most families
        # have nothing in most turns; naming them all took 8 µs of a turn.
        for family, keys in batch.deletes.items():
            if keys:
                native.set_default_column_family(self._handles[family])
            for key in keys:
                del native[key]
        for family, entries in batch.puts.items():
            if entries:
                native.set_default_column_family(self._handles[family])
            for key, value in entries:
                native[key] = value
        return native

    def _stored_epoch(self) -> int:
        return stored_number(self, EPOCH_KEY, 0)

    # -------------------------------------------------------------------------------------------- opening

    def _open(self, boot_id: str, *, has_failed: bool, accept_damage: bool) -> Rdict:
        """Open only the existing families, so that a store that is refused does not change."""
        with engine.translated_errors(self._path, "open"):
            makedirs(self._path, exist_ok=True)
            with closing(Folder(self._path)) as folder:
                folder.refuse_foreign()
            is_new = not exists(join(self._path, "CURRENT"))
            self.damage = recover_logs(self._path, boot_id, has_failed=has_failed, accept=accept_damage)
            families = FAMILIES if is_new else Rdict.list_cf(self._path)
            return Rdict(
                self._path, tuning.database(), {family: tuning.for_family(family, self._cache) for family in families}
            )

    def _bind(self) -> None:
        with engine.translated_errors(self._path, "open"):
            for family in Rdict.list_cf(self._path):
                self._families[family] = self._db.get_column_family(family)
                self._handles[family] = self._db.get_column_family_handle(family)

    def _mark(self, boot_id: str) -> None:
        """Write the mark of the opening: by now, all earlier changes are in tables, which are synced."""
        with engine.translated_errors(self._path, "open"):
            self._marker = SyncedMarkWriter(self._path, mark_of_opening(self._path, self._opened_seq, boot_id))

    def _add_families(self) -> None:
        """Create families that the format of the directory did not have."""
        missing = [family for family in FAMILIES if family not in self._families]
        with engine.translated_errors(self._path, "open"):
            for family in missing:
                self._db.create_column_family(family, tuning.for_family(family, self._cache)).close()
        self._bind()

    def _finish_making(self) -> None:
        """Complete a first start that was interrupted before anything was stored.

        Raises:
            StoreError: the database is another program's, or a store that has lost a family.
        """
        if exists(join(self._path, synced_mark.NAME)):
            raise StoreError(f"{self._path}: the store has lost its family {META}; restore it from a backup")
        if self._families.keys() - {*FAMILIES, DEFAULT} or self.scan(DEFAULT, b"", LAST_KEY, 1):
            raise StoreError(f"{self._path}: this is another program's database; choose another store.path")
        self._add_families()
