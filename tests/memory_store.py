"""Store in memory for tests, simulations and benchmarks, on a simulated disk that can lose its power.

A Disk outlives the stores opened on it. It distinguishes written from synced batches, so that ``power_cut`` leaves
what a real disk would be sure to have. Two stores on one disk are two schedulers: the later ``begin`` fences
the earlier.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence

from taskqueue.errors import StoreError
from taskqueue.store.contract import Batch, Family
from taskqueue.store.records.epochs import epoch_batch, next_epoch, refuse_older
from taskqueue.store.records.format import EPOCH_KEY, META, Migrations, upgrade
from taskqueue.store.records.layout import FAMILIES
from taskqueue.store.records.migrations import MIGRATIONS


class Entries:
    """Ordered map of bytes: a dict, and a sorted list of its keys."""

    __slots__ = ("keys", "values")

    def __init__(self, values: Mapping[bytes, bytes]) -> None:
        self.values = dict(values)
        self.keys = sorted(values)

    def put(self, key: bytes, value: bytes) -> None:
        if key not in self.values:
            insort(self.keys, key)
        self.values[key] = value

    def delete(self, key: bytes) -> None:
        if self.values.pop(key, None) is not None:
            del self.keys[bisect_left(self.keys, key)]

    def drop(self, start: bytes, end: bytes) -> None:
        first, last = bisect_left(self.keys, start), bisect_left(self.keys, end)
        for key in self.keys[first:last]:
            del self.values[key]
        del self.keys[first:last]

    def scan(self, start: bytes, end: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        assert limit >= 0, "real stores fail at a limit below 0"
        first, last = bisect_left(self.keys, start), bisect_left(self.keys, end)
        return [(key, self.values[key]) for key in self.keys[first : min(last, first + limit)]]

    def scan_back(self, start: bytes, end: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        assert limit >= 0, "real stores fail at a limit below 0"
        first, last = bisect_left(self.keys, start), bisect_left(self.keys, end)
        return [(key, self.values[key]) for key in reversed(self.keys[max(first, last - limit) : last])]


Families = dict[Family, Entries]


class Disk:
    """Disk that survives its MemoryStores.

    Attributes:
        families: written entries by family, synced or not.
    """

    def __init__(self) -> None:
        self.families: Families = {}
        self._synced: Families = {}
        self._unsynced: list[Batch] = []
        self.add(FAMILIES)

    @property
    def epoch(self) -> int:
        """Newest epoch begun; 0 if there is none."""
        return int(self.families[META].values.get(EPOCH_KEY, b"0"))

    def add(self, families: Iterable[Family]) -> None:
        """Create these families too; an older format had families that no longer exist."""
        for family in families:
            self.families.setdefault(family, Entries({}))
            self._synced.setdefault(family, Entries({}))

    def write(self, batch: Batch) -> None:
        """Apply a batch, which must not be changed afterwards."""
        _apply(self.families, batch)
        self._unsynced.append(batch)

    def sync(self) -> None:
        """Make everything written so far survive a power cut."""
        unsynced, self._unsynced = self._unsynced, []
        for batch in unsynced:
            _apply(self._synced, batch)

    def power_cut(self, lucky: int = 0) -> None:
        """Lose what was not synced, except for the first ``lucky`` batches, which happened to reach the disk.

        The stores opened on this disk are dead afterwards; open another.
        """
        del self._unsynced[lucky:]
        self.sync()
        self.families = {family: Entries(entries.values) for family, entries in self._synced.items()}


def _apply(families: Families, batch: Batch) -> None:
    for family, start, end in batch.drops:
        families[family].drop(start, end)
    for family, keys in batch.deletes.items():
        for key in keys:
            families[family].delete(key)
    for family, entries in batch.puts.items():
        for key, value in entries:
            families[family].put(key, value)


class MemoryStore:
    """Store on a Disk; ``contract`` has what its methods promise."""

    def __init__(self, disk: Disk, migrations: Migrations = MIGRATIONS) -> None:
        """Open the store on a disk.

        Raises:
            FormatError: its format is newer than this version's, or too old to be migrated.
        """
        self._disk: Disk | None = disk
        upgrade(self, "memory", migrations)

    def begin(self) -> int:
        disk = self._open()
        epoch = next_epoch(disk.epoch, "memory")
        disk.write(epoch_batch(epoch))
        disk.sync()
        return epoch

    def get(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        values = self._open().families[family].values
        return [values.get(key) for key in keys]

    def scan(self, family: Family, start: bytes, end: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        return self._open().families[family].scan(start, end, limit)

    def scan_back(self, family: Family, start: bytes, end: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        return self._open().families[family].scan_back(start, end, limit)

    def write(self, epoch: int, batch: Batch) -> None:
        disk = self._open()
        refuse_older(epoch, disk.epoch, "memory")
        disk.write(batch)

    def sync(self) -> None:
        self._open().sync()

    def levels(self) -> dict[int, list[int]]:
        return {}

    def log_bytes(self) -> int:
        return 0

    def close(self) -> None:
        self._disk = None

    def _open(self) -> Disk:
        if self._disk is None:
            raise StoreError("memory: the store is closed; open another one on its disk")
        return self._disk
