"""A ledger on every store, and tasks to put into it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from taskqueue.store.contract import Store
from taskqueue.store.ledger import Ledger
from taskqueue.store.memory import Disk, MemoryStore
from taskqueue.store.rocks import RocksStore


class Ground:
    """Where a ledger lies: opening it again finds what the last one left.

    Attributes:
        store: the one that is open.
    """

    def __init__(self, make: Callable[[], Store]) -> None:
        self._make = make
        self.store = make()

    def open(self) -> Ledger:
        """A ledger on the same ground, as after a crash."""
        self.store.close()
        self.store = self._make()
        return Ledger(self.store)


@pytest.fixture(params=["memory", "rocks"])
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ground]:
    disk = Disk()
    ground = Ground((lambda: MemoryStore(disk)) if request.param == "memory" else (lambda: RocksStore(tmp_path)))
    yield ground
    ground.store.close()


@pytest.fixture
def ledger(ground: Ground) -> Ledger:
    """Begun."""
    ledger = ground.open()
    ledger.begin("boot-1")
    return ledger
