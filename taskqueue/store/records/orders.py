"""Reads an order: the next tasks of a state, with their specs.

order ──scan─► records ──specs──► tasks with specs, up to the limits
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar

from taskqueue.core.tasks.needs import FoundOrder, OrderRef
from taskqueue.core.tasks.task import LIVE, NO_FLOOR, READY, SLOT_SHIFT, TASK_BYTES, Task
from taskqueue.errors import Unreadable
from taskqueue.store.contract import Store
from taskqueue.store.records import layout, over_entries
from taskqueue.store.records.decoding import decode_record

T = TypeVar("T")
Entry = tuple[bytes, bytes]

FIRST_SPECS: Final = 8
"""Specs of the first read for an order or a page; each further read has twice as many, as long as bodies are small."""

MOST_SPECS: Final = 1024
"""Specs per read, at most."""

NEAR_SEQS: Final = 16
"""Specs are read by one scan if their seqs span at most this many times their number."""


def find_order(store: Store, ref: OrderRef) -> FoundOrder:
    """Answer an OrderRef; one entry more than asked for is read, to know what follows."""
    start, end = _bounds(ref)
    entries = store.scan(layout.ORDERS[ref.state], start, end, ref.limit + 1)
    tasks = up_to_bytes(ref.limit_bytes, with_specs(store, ref.project, ref.state, entries[: ref.limit]))
    following = entries[len(tasks) : len(tasks) + 1]
    return FoundOrder(ref, tasks, layout.place_of(following[0][0]) if following else NO_FLOOR)


def _bounds(ref: OrderRef) -> tuple[bytes, bytes]:
    """The range of keys from the order's start to its end; empty if the start is above all keys.

    Of ready tasks it is the part without slots.
    """
    most = layout.order_key(ref.project, 1 << SLOT_SHIFT)
    end = most if ref.state == READY else layout.project_key(ref.project + 1)
    return (end if ref.start >= NO_FLOOR else layout.order_key(ref.project, ref.start)), end


def up_to_bytes(limit_bytes: int, tasks: Iterator[Task]) -> list[Task]:
    """Tasks up to the one with which urls and bodies reach the limit; the first one in any case."""
    taken: list[Task] = []
    total = 0
    for task in tasks:
        taken.append(task)
        total += task.size - TASK_BYTES
        if total >= limit_bytes:
            break
    return taken


def with_specs(store: Store, project: int, state: int, entries: list[Entry]) -> Iterator[Task]:
    """The tasks of the entries, read lazily, so that large bodies are not read in vain."""
    for some in growing_chunks(entries):
        yield from _some(store, project, state, some)


def growing_chunks(items: list[T]) -> Iterator[list[T]]:
    """The items in chunks of FIRST_SPECS, doubling up to MOST_SPECS."""
    first, count = 0, FIRST_SPECS
    while first < len(items):
        yield items[first : first + count]
        first, count = first + count, min(2 * count, MOST_SPECS)


def _some(store: Store, project: int, state: int, entries: list[Entry]) -> Iterator[Task]:
    family = layout.ORDERS[state]
    spec_keys = [layout.spec_key_of(key) for key, _ in entries]
    specs = _near(store, spec_keys)
    missing = [
        key for key, spec_key in zip((key for key, _ in entries), spec_keys, strict=True) if not specs.get(spec_key)
    ]
    if missing:
        raise Unreadable([(family, key, "its spec is missing") for key in missing])
    for (key, _), record, spec_key in zip(entries, records_of(store, project, state, entries), spec_keys, strict=True):
        value = specs[spec_key]
        taskid, spec = decode_record(layout.SPECS, spec_key, layout.decode_spec, value)
        task = decode_record(family, key, layout.task_of, project, taskid, record)
        layout.fill(task, spec)
        yield task


def _near(store: Store, keys: list[bytes]) -> dict[bytes, bytes | None]:
    """The specs of an order's next tasks, which are mostly neighbours because their tasks were created in sequence.

    Scanning on costs a fifth of a point look-up, so where keys are close together one scan over up to twice as many
    entries comes first; what it did not reach is looked up.
    """
    first, last = min(keys), max(keys)
    near: dict[bytes, bytes | None] = {}
    if layout.seq_of(last) - layout.seq_of(first) <= NEAR_SEQS * len(keys):
        near.update(store.scan(layout.SPECS, first, last + b"\0", 2 * len(keys)))
    far = [key for key in keys if key not in near]
    near.update(zip(far, store.get(layout.SPECS, far), strict=True))
    return near


def records_of(store: Store, project: int, state: int, entries: list[Entry]) -> list[bytes]:
    """The records of the entries: in the order itself for live tasks, by taskid for finished ones."""
    if state in LIVE:
        return [value for _, value in entries]
    start, family = layout.project_key(project), layout.ORDERS[state]
    keys = [start + decode_record(family, key, over_entries.taskid_at, value) for key, value in entries]
    found = store.get(layout.IDS, keys)
    records = [record for record in found if record is not None]
    if len(records) < len(keys):
        unknown = [key for (key, _), record in zip(entries, found, strict=True) if record is None]
        raise Unreadable([(family, key, "it is the name of an unknown task") for key in unknown])
    return records
