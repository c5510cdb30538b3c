"""Storage of the scheduler: a real store, behind faults.

MemoryDisk   loses unsynced writes when the machine dies
RocksDisk    a directory, really closed and opened again; it keeps all writes, because the test's own machine has no
             power cut. To compare the two, let the memory keep them too.
DatabaseDisk a schema of a real server; it keeps all writes, too
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal, Protocol

from taskqueue.errors import StoreError
from taskqueue.store.contract import Batch, Family, Store
from taskqueue.store.postgres.postgres_store import PostgresStore
from taskqueue.store.rocksdb.rocks_store import RocksStore
from tests.memory_store import Disk, Entries, MemoryStore
from tests.postgres import drop_schema, new_target
from tests.simulation.world import Crash

ROCKS_CACHE_BYTES: Final = 8 << 20

Fault = Literal["", "crash before", "crash after", "fails", "unknown"]
"""Fault of the next write: the write fails, or the process dies; ``unknown`` fails after having been written."""


class Storage(Protocol):
    """Storage that outlives every process."""

    def open(self) -> Store:
        """Open a store on the storage."""

    def power_cut(self, lucky: int) -> None:
        """Lose unsynced writes, except for the first ``lucky`` ones."""

    def copy(self) -> Store | None:
        """Copy the content into a store for the caller alone; None if that is expensive."""


class MemoryDisk:
    """Storage in memory."""

    def __init__(self) -> None:
        self._disk = Disk()

    def open(self) -> Store:
        return MemoryStore(self._disk)

    def power_cut(self, lucky: int) -> None:
        self._disk.power_cut(lucky)

    def copy(self) -> Store | None:
        disk = Disk()
        disk.families = {family: Entries(entries.values) for family, entries in self._disk.families.items()}
        return MemoryStore(disk)


class RocksDisk:
    """Storage in a directory."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def open(self) -> Store:
        return RocksStore(self._path, cache_bytes=ROCKS_CACHE_BYTES)

    def power_cut(self, lucky: int) -> None:
        pass

    def copy(self) -> Store | None:
        return None


class DatabaseDisk:
    """Storage in a schema of a database, which the caller drops."""

    def __init__(self) -> None:
        self._target = new_target()

    def open(self) -> Store:
        return PostgresStore(self._target)

    def power_cut(self, lucky: int) -> None:
        pass

    def copy(self) -> Store | None:
        return None

    def drop(self) -> None:
        """Remove the schema."""
        drop_schema(self._target)


StoreName = Literal["memory", "rocks", "postgres"]


@contextmanager
def storage_of(name: StoreName) -> Iterator[Storage]:
    """Make new storage, and remove it after the block."""
    if name == "memory":
        yield MemoryDisk()
    elif name == "rocks":
        with TemporaryDirectory() as folder:
            yield RocksDisk(Path(folder) / "store")
    else:
        disk = DatabaseDisk()
        try:
            yield disk
        finally:
            disk.drop()


class Plan:
    """Plan of a fault for one write, counted over all daemons, writes that begin and end an epoch included.

    Attributes:
        tried: writes so far.
    """

    def __init__(self, write: int = 0, fault: Fault = "") -> None:
        self._write = write
        self._fault: Fault = fault
        self.tried = 0

    def next(self) -> Fault:
        """Return the fault of the next write."""
        self.tried += 1
        return self._fault if self.tried == self._write else ""


class FaultyStore:
    """Store that fails on demand.

    Attributes:
        fault: of the next write; afterwards there is none, unless the plan has one.
        unreadable: whether reads fail.
        unsyncable: whether syncs fail.
        writes: batches that have reached the store.
    """

    def __init__(self, store: Store, plan: Plan) -> None:
        self._store = store
        self._plan = plan
        self.fault: Fault = ""
        self.unreadable = False
        self.unsyncable = False
        self.writes = 0

    def begin(self) -> int:
        fault = self._plan.next()
        _before(fault)
        epoch = self._store.begin()
        _after(fault)
        return epoch

    def get(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        self._read()
        return self._store.get(family, keys)

    def scan(self, family: Family, start: bytes, end: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        self._read()
        return self._store.scan(family, start, end, limit)

    def scan_back(self, family: Family, start: bytes, end: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        self._read()
        return self._store.scan_back(family, start, end, limit)

    def write(self, epoch: int, batch: Batch) -> None:
        fault, self.fault = self._plan.next() or self.fault, ""
        _before(fault)
        self._store.write(epoch, batch)
        self.writes += 1
        _after(fault)

    def sync(self) -> None:
        if self.unsyncable:
            raise StoreError("the disk does not sync")
        self._store.sync()

    def levels(self) -> dict[int, list[int]]:
        return self._store.levels()

    def log_bytes(self) -> int:
        return self._store.log_bytes()

    def close(self) -> None:
        self._store.close()

    def _read(self) -> None:
        if self.unreadable:
            raise StoreError("the disk does not read")


def _before(fault: Fault) -> None:
    """Raise the fault that comes instead of a write."""
    if fault == "crash before":
        raise Crash(fault)
    if fault == "fails":
        raise StoreError("the disk is full")


def _after(fault: Fault) -> None:
    """Raise the fault that comes after a write has reached the disk."""
    if fault == "crash after":
        raise Crash(fault)
    if fault == "unknown":
        raise StoreError("the disk does not say whether it has written")
