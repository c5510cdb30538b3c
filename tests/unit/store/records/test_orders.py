"""Reads of the next tasks of an order."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Raw

from taskqueue.core.model.needs import OrderRef
from taskqueue.core.model.records import WriteSet
from taskqueue.core.model.spec import Spec
from taskqueue.core.model.task import READY, Task, ready_key
from taskqueue.protocol.values import Schedule
from taskqueue.store.batch import batch_of
from taskqueue.store.contract import Entry, Family
from taskqueue.store.records import layout
from taskqueue.store.records.tasks import MOST_SPECS, find_order
from tests.memory_store import Disk, MemoryStore

BODY = 10_000


class Measured(MemoryStore):
    """Store that records the most bytes of specs that one read has returned."""

    most = 0

    def get(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        values = super().get(family, keys)
        self.note(family, sum(len(value or b"") for value in values))
        return values

    def scan(self, family: Family, start: bytes, end: bytes, limit: int) -> list[Entry]:
        entries = super().scan(family, start, end, limit)
        self.note(family, sum(len(value) for _, value in entries))
        return entries

    def note(self, family: Family, size: int) -> None:
        if family == layout.SPECS:
            self.most = max(self.most, size)


def test_large_bodies_behind_many_small_ones_are_not_all_read_at_once() -> None:
    store = Measured(Disk())
    tasks = []
    for seq in range(1, 1201):
        task = Task(1, f"t{seq:04}", READY, ready_key(0, seq), seq)
        body = b"x" * (BODY if seq > 600 else 1)
        task.describe(Spec("http://x/", Schedule(), Raw(b"\xc5" + len(body).to_bytes(2, "big") + body), 0), apart=False)
        task.touched = True
        tasks.append(task)
    store.write(store.begin(), batch_of(WriteSet(moves=[task.as_move() for task in tasks])))

    found = find_order(store, OrderRef(1, READY, 0, 1200, 100 * BODY))

    assert 600 < len(found.tasks) < 800
    assert BODY < store.most <= 2 * MOST_SPECS * (BODY + 100)
    assert MOST_SPECS <= 128, "a body has up to 8 MiB"
