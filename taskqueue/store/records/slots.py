"""Slots of projects: keys and values, how a turn looks them up, and how requests about slots are answered.

The core's ``slot_records`` defines the records and entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from msgspec.msgpack import Decoder

from taskqueue.core.model.needs import (
    Found,
    FoundLook,
    FoundSlotRecords,
    FoundTally,
    Needs,
    SlotAnswers,
    SlotLook,
    SlotQuestion,
    SlotRecordsRef,
    SlotTallyRef,
)
from taskqueue.core.model.slot_records import (
    NUMBER_BITS,
    NUMBER_MASK,
    TIME_BYTES,
    FoundSlot,
    FoundSlotPage,
    SlotOrder,
    SlotPageRef,
    SlotRecord,
    SlotRef,
    SlotWrites,
)
from taskqueue.core.model.task import READY, SLOT_SHIFT
from taskqueue.store.contract import Batch, Family, Store
from taskqueue.store.records import layout
from taskqueue.store.records.layout import PROJECT_BYTES
from taskqueue.store.records.reading import decode_record, raise_unreadable
from taskqueue.store.records.tasks import up_to_bytes, with_specs

BEST_BYTES: Final = 16
"""Bytes of an entry by best task."""
NUMBER_BYTES: Final = 4

PREFIX: Final = 8
"""Bytes of a key before the entry: project and division."""

decode_slot: Final = Decoder(SlotRecord).decode

_FAMILIES: Final[dict[SlotOrder, tuple[Family, int]]] = {
    "best": (layout.SLOTS_READY, BEST_BYTES),
    "time": (layout.SLOTS_WAITING, TIME_BYTES),
    "old": (layout.SLOTS_READY, BEST_BYTES),
    "old_time": (layout.SLOTS_WAITING, TIME_BYTES),
}


def name_key(project: int, name: str) -> bytes:
    """Encode a key of SLOT_NAMES."""
    return layout.project_key(project) + name.encode()


def slot_key(project: int, number: int) -> bytes:
    """Encode a key of SLOTS, or the beginning of keys of an order of slots, with a division as the number."""
    return layout.project_key(project) + number.to_bytes(NUMBER_BYTES, "big")


def add_slots(batch: Batch, writes: Iterable[SlotWrites]) -> None:
    """Add a turn's changes of slots to the batch."""
    for each in writes:
        best = {(each.division, entry): kept for entry, kept in each.best.items()} | each.old
        for (division, entry), kept in best.items():
            key = slot_key(each.project, division) + entry.to_bytes(BEST_BYTES, "big")
            _add(batch, layout.SLOTS_READY, key, kept)
        times = {(each.division, entry): kept for entry, kept in each.time.items()} | each.old_time
        for (division, entry), kept in times.items():
            key = slot_key(each.project, division) + entry.to_bytes(TIME_BYTES, "big")
            _add(batch, layout.SLOTS_WAITING, key, kept)
        batch.puts[layout.SLOT_NAMES].extend(
            (name_key(each.project, name), number.to_bytes(NUMBER_BYTES, "big")) for name, number in each.names.items()
        )
        batch.puts[layout.SLOTS].extend(
            (slot_key(each.project, number), layout.encode(record)) for number, record in each.records.items()
        )


def _add(batch: Batch, family: Family, key: bytes, kept: bool) -> None:
    if kept:
        batch.puts[family].append((key, b""))
    else:
        batch.deletes[family].append(key)


# ------------------------------------------------------------------------------------------------ look-ups of a turn


def find_slots(store: Store, needs: Needs, found: Found) -> None:
    """Answer a turn's needs of slots."""
    _find_names(store, needs, found)
    records = _records(store, [(ref.project, ref.number) for ref in needs.slots])
    for ref, record in zip(needs.slots, records, strict=True):
        found.slots[ref] = _slot(store, ref, record)
    found.slot_pages = [_page(store, ref) for ref in needs.slot_pages]


def _find_names(store: Store, needs: Needs, found: Found) -> None:
    asked = list(dict.fromkeys(needs.slot_names))
    keys = [name_key(ref.project, ref.name) for ref in asked]
    for ref, value in zip(asked, store.get(layout.SLOT_NAMES, keys), strict=True):
        found.slot_numbers[ref] = int.from_bytes(value or b"", "big")
    old = [ref for ref in asked if 0 < found.slot_numbers[ref] < ref.division]
    wanted = list(dict.fromkeys(old + needs.slot_records)) if needs.slot_records else old
    records = _records(store, [(ref.project, found.slot_numbers[ref]) for ref in wanted])
    found.slot_records = {ref: record for ref, record in zip(wanted, records, strict=True) if record is not None}


def _records(store: Store, slots: list[tuple[int, int]]) -> list[SlotRecord | None]:
    keys = [slot_key(*slot) for slot in slots]
    values = zip(keys, store.get(layout.SLOTS, keys), strict=True)
    return [None if value is None else decode_record(layout.SLOTS, key, decode_slot, value) for key, value in values]


def _slot(store: Store, ref: SlotRef, record: SlotRecord | None) -> FoundSlot:
    """Read the slot with its next tasks; one entry more than asked for is read, to know whether there are more."""
    end = layout.order_key(ref.project, (ref.number + 1) << SLOT_SHIFT)
    entries = store.scan(layout.ORDERS[READY], layout.order_key(ref.project, ref.start), end, ref.limit + 1)
    tasks = up_to_bytes(ref.limit_bytes, with_specs(store, ref.project, READY, entries[: ref.limit]))
    return FoundSlot(record, tasks, end=len(tasks) == len(entries))


def _page(store: Store, ref: SlotPageRef) -> FoundSlotPage:
    """Read the next slots of an order, and the entry after them."""
    family, size = _FAMILIES[ref.order]
    start, end = _bounds(ref, size)
    keys = [key for key, _ in store.scan(family, start, end, ref.limit + 1)]
    for key in keys:
        if len(key) != PREFIX + size:
            raise_unreadable(family, key, f"{len(key)} bytes")
    entries = [int.from_bytes(key[PREFIX:], "big") for key in keys]
    taken = [entry for entry in entries[: ref.limit] if _is_old(ref) or entry < ref.end]
    numbers = list(dict.fromkeys(entry & NUMBER_MASK for entry in taken))
    records = _records(store, [(ref.project, number) for number in numbers])
    slots = {
        number: _slot(store, SlotRef(ref.project, number, start, ref.tasks, ref.limit_bytes), record)
        for number, start, record in zip(numbers, _starts(ref, taken, numbers), records, strict=True)
    }
    divisions = [int.from_bytes(key[4:PREFIX], "big") for key in keys[: len(taken)]]
    return FoundSlotPage(ref, taken, divisions, slots, entries[len(taken)] if len(taken) < len(entries) else None)


def _is_old(ref: SlotPageRef) -> bool:
    return ref.order == "old" or ref.order == "old_time"


def _starts(ref: SlotPageRef, entries: list[int], numbers: list[int]) -> list[int]:
    """Return the places from which the tasks of the slots are read.

    In former divisions a slot's first entry is at its best task or before it, and all before that has been moved, so
    reading from there avoids crossing a million deleted keys at each step.
    """
    if ref.order != "old":
        return [number << SLOT_SHIFT for number in numbers]
    first = {entry & NUMBER_MASK: entry for entry in reversed(entries)}
    return [number << SLOT_SHIFT | first[number] >> NUMBER_BITS for number in numbers]


def _bounds(ref: SlotPageRef, size: int) -> tuple[bytes, bytes]:
    if _is_old(ref):
        return slot_key(ref.project, 0), slot_key(ref.project, ref.division)
    start = slot_key(ref.project, ref.division)
    return start + min(ref.start, (1 << 8 * size) - 1).to_bytes(size, "big"), slot_key(ref.project, ref.division + 1)


# ------------------------------------------------------------------------------------------------ requests

LOOK_BYTES: Final = 64 << 10
"""Bytes of URLs and bodies of a slot's next tasks that end the read, but not before the first task."""

_NUMBER_END: Final = PREFIX


def find_slot_answers(store: Store, questions: Sequence[SlotQuestion], found: Found) -> SlotAnswers:
    """Answer a turn's requests about slots; tasks have been looked up before."""
    answers = SlotAnswers({}, {}, {})
    for each in questions:
        if isinstance(each, SlotLook):
            answers.looks[each] = _look(store, each, found)
        elif isinstance(each, SlotTallyRef):
            answers.tallies[each] = _tally(store, each)
        else:
            answers.records[each] = _shown_records(store, each)
    return answers


def _look(store: Store, ref: SlotLook, found: Found) -> FoundLook:
    number = ref.number or _number(store, ref, found)
    [value] = store.get(layout.SLOTS, [slot_key(ref.project, number)])
    record = None if value is None else decode_record(layout.SLOTS, slot_key(ref.project, number), decode_slot, value)
    start, end = (layout.order_key(ref.project, each << SLOT_SHIFT) for each in (number, number + 1))
    entries = store.scan(layout.ORDERS[READY], start, end, ref.count_most + 1) if number else []
    tasks = up_to_bytes(LOOK_BYTES, with_specs(store, ref.project, READY, entries[: ref.tasks_most]))
    return FoundLook(number, record, min(len(entries), ref.count_most), len(entries) > ref.count_most, tasks)


def _number(store: Store, ref: SlotLook, found: Found) -> int:
    """Return the number of the slot with that name, or of that task; 0 if there is none."""
    if ref.taskid:
        task = found.tasks.get((ref.project, ref.taskid))
        return task.key >> SLOT_SHIFT if task is not None and task.state == READY else 0
    return int.from_bytes(store.get(layout.SLOT_NAMES, [name_key(ref.project, ref.name)])[0] or b"", "big")


def _tally(store: Store, ref: SlotTallyRef) -> FoundTally:
    start, end = layout.order_key(ref.project, ref.start), layout.project_key(ref.project + 1)
    entries = store.scan(layout.ORDERS[READY], start, end, ref.limit)
    groups = groupby(key[PROJECT_BYTES:_NUMBER_END] for key, _ in entries)
    counts = [(int.from_bytes(number, "big"), sum(1 for _ in group)) for number, group in groups]
    last = entries[-1][0][PROJECT_BYTES:] if entries else b""
    return FoundTally(counts, int.from_bytes(last, "big") + 1 if len(entries) == ref.limit else None)


def _shown_records(store: Store, ref: SlotRecordsRef) -> FoundSlotRecords:
    start, end = slot_key(ref.project, ref.start), layout.project_key(ref.project + 1)
    entries = store.scan(layout.SLOTS, start, end, ref.limit)
    records = {
        int.from_bytes(key[PROJECT_BYTES:], "big"): decode_record(layout.SLOTS, key, decode_slot, value)
        for key, value in entries
    }
    return FoundSlotRecords(records, max(records) + 1 if len(entries) == ref.limit else None)
