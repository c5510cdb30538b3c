"""Looks slots up for people. ``core/tasks/slots/slot_looks`` says what is asked, ``records/slots`` how it is stored."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from taskqueue.core.tasks.needs import Found
from taskqueue.core.tasks.slots.slot_looks import (
    FoundLook,
    FoundSlotRecords,
    FoundTally,
    SlotAnswers,
    SlotLook,
    SlotQuestion,
    SlotRecordsRef,
    SlotTallyRef,
)
from taskqueue.core.tasks.task import READY, SLOT_SHIFT
from taskqueue.store.contract import Store
from taskqueue.store.records import layout
from taskqueue.store.records.decoding import decode_record
from taskqueue.store.records.layout import PROJECT_BYTES
from taskqueue.store.records.orders import up_to_bytes, with_specs
from taskqueue.store.records.slots import PREFIX, decode_slot, name_key, slot_key

LOOK_BYTES: Final = 64 << 10
"""Urls and bodies of the next tasks of a slot that are read, not before the first one."""

_NUMBER_END: Final = PREFIX


def find_slot_answers(store: Store, questions: Sequence[SlotQuestion], found: Found) -> SlotAnswers:
    """Answer what people ask in a turn about slots; its tasks have been looked up before."""
    answers = SlotAnswers({}, {}, {})
    for each in questions:
        if isinstance(each, SlotLook):
            answers.looks[each] = _look(store, each, found)
        elif isinstance(each, SlotTallyRef):
            answers.tallies[each] = _tally(store, each)
        else:
            answers.records[each] = _records(store, each)
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
    """The number of the slot of that name, or of that task; 0: there is none."""
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


def _records(store: Store, ref: SlotRecordsRef) -> FoundSlotRecords:
    start, end = slot_key(ref.project, ref.start), layout.project_key(ref.project + 1)
    entries = store.scan(layout.SLOTS, start, end, ref.limit)
    records = {
        int.from_bytes(key[PROJECT_BYTES:], "big"): decode_record(layout.SLOTS, key, decode_slot, value)
        for key, value in entries
    }
    return FoundSlotRecords(records, max(records) + 1 if len(entries) == ref.limit else None)
