"""Slots in memory: sizes of their reads."""

from __future__ import annotations

import pytest

from taskqueue.core.model.heads import Head
from taskqueue.core.model.slot import SlotClock
from taskqueue.core.model.slot_pace import SlotPace
from taskqueue.core.model.slot_queue import MOST_TASKS, SlotQueue
from taskqueue.core.model.slot_records import FoundSlot, SlotRecord
from taskqueue.core.model.slot_table import FIRST_TASKS, SlotTable

MOST_SLOTS = 10_000
"""Slots in memory, and tasks in memory, if their bound is lower."""


def read_tasks(slots: int, max_bytes: int) -> int:
    """Return how many tasks a slot is read with, after ten reads, with ``slots`` slots in memory."""
    table = SlotTable(1, SlotClock(), lambda record: SlotPace(1.0, 0.0, 1.0), 1, slots + 1, MOST_SLOTS)
    queue = SlotQueue({}, table)
    queue.trim(1, max_bytes)
    first, *_ = [table.take_in(number, SlotRecord(f"host-{number}"), Head(0)) for number in range(1, slots + 1)]
    for _ in range(10):
        table.dry[1] = first
        queue.take_slot(1, FoundSlot(None, [], end=False))
    return first.read_tasks


@pytest.mark.parametrize(
    ("slots", "max_bytes", "tasks"),
    [(1, 1 << 30, MOST_TASKS), (50, 1 << 30, 100), (1000, 1 << 30, FIRST_TASKS), (1, 1 << 10, FIRST_TASKS)],
    ids=["one slot", "some slots", "many slots", "little memory"],
)
def test_reads_take_no_more_of_a_slot_than_memory_holds_of_all(slots: int, max_bytes: int, tasks: int) -> None:
    assert read_tasks(slots, max_bytes) == tasks
