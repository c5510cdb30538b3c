"""Every store implementation, each on ground that outlives it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from taskqueue.store.contract import Store
from taskqueue.store.postgres.postgres_store import PostgresStore
from taskqueue.store.records.format import Migrations
from taskqueue.store.records.migrations import MIGRATIONS
from taskqueue.store.rocksdb.rocks_store import RocksStore
from tests.memory_store import Disk, MemoryStore
from tests.postgres import drop_schema, new_target


class Ground:
    """Place of a store: opening it again finds what the last store left."""

    def __init__(self, kind: str, path: Path) -> None:
        self.path = path
        self.disk = Disk()
        self._kind = kind
        self._opened: Store | None = None
        if kind == "postgres":
            self.target = new_target()

    def open(self, migrations: Migrations = MIGRATIONS) -> Store:
        """Close the store, if one is open, and open it again."""
        self.close()
        if self._kind == "memory":
            self._opened = MemoryStore(self.disk, migrations)
        elif self._kind == "postgres":
            self._opened = PostgresStore(self.target, migrations=migrations)
        else:
            self._opened = RocksStore(self.path, migrations=migrations)
        return self._opened

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def clear_away(self) -> None:
        """Close the store, and remove everything that other tests would find."""
        self.close()
        if self._kind == "postgres":
            drop_schema(self.target)


@pytest.fixture(params=["memory", "rocks", "postgres"])
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ground]:
    ground = Ground(request.param, tmp_path / "store")
    yield ground
    ground.clear_away()


@pytest.fixture
def store(ground: Ground) -> Store:
    return ground.open()
