"""Finds entries below the lower bounds that projects have for where their orders begin: those are never read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from taskqueue.core.tasks.records import ProjectRecord
from taskqueue.core.tasks.task import DELAYED, KEY_BYTES, OVER, READY, SLOT_SHIFT
from taskqueue.store.contract import Family, StoreReader
from taskqueue.store.records import layout

_IN_NO_SLOT: Final = (1 << SLOT_SHIFT).to_bytes(KEY_BYTES, "big")
"""Above the places of ready tasks that are in no slot; what lies beyond is yet to be moved."""


def find_below_bounds(store: StoreReader, record: ProjectRecord, note: Callable[[Family, bytes, str], object]) -> None:
    """Report the first entry below each bound of a project: its family, its key, what is wrong."""
    for family, start, low in _bounds(record):
        for key, _ in store.scan(family, start, start + low, 1):
            note(family, key, "it lies below the bound that the project has for where the order begins")


def _bounds(record: ProjectRecord) -> Iterator[tuple[Family, bytes, bytes]]:
    """Where each order begins: its family, the start of its keys, the bound.

    Slots have orders in place of that of the ready tasks, in which entries that lead nowhere may lie below the bound.
    """
    start = layout.project_key(record.number)
    if record.slots is None or record.slots.by == "none":
        yield layout.ORDERS[READY], start, min(record.ready_low, _IN_NO_SLOT)
    yield layout.ORDERS[DELAYED], start, record.delayed_low
    for state, at in zip(OVER, range(0, len(record.over_low), KEY_BYTES), strict=False):
        yield layout.ORDERS[state], start, record.over_low[at : at + KEY_BYTES]
