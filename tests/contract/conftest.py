"""Every store that there is, each on ground that outlives it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from taskqueue.store.contract import Store
from taskqueue.store.memory_store import Disk, MemoryStore
from taskqueue.store.records.format import Migrations
from taskqueue.store.records.migrations import MIGRATIONS
from taskqueue.store.rocksdb.rocks_store import RocksStore


class Ground:
    """Where a store lies: opening it again finds what the last one left."""

    def __init__(self, kind: str, path: Path) -> None:
        self.path = path
        self.disk = Disk()
        self._kind = kind
        self._opened: Store | None = None

    def open(self, migrations: Migrations = MIGRATIONS) -> Store:
        """Close the store, if one is open, and open it again."""
        self.close()
        if self._kind == "memory":
            self._opened = MemoryStore(self.disk, migrations)
        else:
            self._opened = RocksStore(self.path, migrations=migrations)
        return self._opened

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None


@pytest.fixture(params=["memory", "rocks"])
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ground]:
    ground = Ground(request.param, tmp_path / "store")
    yield ground
    ground.close()


@pytest.fixture
def store(ground: Ground) -> Store:
    return ground.open()
