"""The invariants of the orders of waiting tasks, with slots and without; part of what ``invariants`` checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from taskqueue.core.projects.project import Project
from taskqueue.core.tasks.heads import Head
from taskqueue.core.tasks.slots.slot import Slot, SlotClock
from taskqueue.core.tasks.slots.slot_queue import SlotQueue
from taskqueue.core.tasks.slots.slot_records import NUMBER_BITS
from taskqueue.core.tasks.slots.slot_table import SlotTable, entry_of
from taskqueue.core.tasks.task import NO_FLOOR, READY, SLOT_SHIFT


def check_order(name: str, order: Head, count: int) -> Iterator[str]:
    """What is wrong with the head of an order that has ``count`` tasks."""
    if order.floor == NO_FLOOR and len(order) != count:
        yield f"{len(order)} tasks are held as {name}, all there are, but {count} are counted"
    if len(order) > count:
        yield f"{len(order)} tasks are held as {name}, but {count} are counted"
    yield from _check_head(name, order)


def _check_head(name: str, order: Head) -> Iterator[str]:
    first = order.first()
    if first is not None and first.key != min(order.entries):
        yield f"the first task held as {name} is not the first"
    if any(key >= order.floor for key in order.entries):
        yield f"a task held as {name} is not below the floor"
    held = sum(task.size for task in order.entries.values())
    if held != order.bytes:
        yield f"tasks held as {name} take {held} bytes, {order.bytes} are counted"


def check_slots(project: Project, ready: SlotQueue, clock: SlotClock) -> Iterator[str]:
    """What is wrong with the slots of a divided project."""
    queue, slots = project.queue, ready.slots
    if len(ready) > queue.counts[READY]:
        yield f"{len(ready)} tasks are held as ready, but {queue.counts[READY]} are counted"
    # What has still to be moved is in the store only.
    is_all = not project.is_moving and _is_all(slots)
    if is_all and len(ready) != queue.counts[READY]:
        yield f"{len(ready)} tasks are held as ready, all there are, but {queue.counts[READY]} are counted"
    held = [(len(slot.head), slot.head.bytes) for slot in slots.by_number.values()]
    if (len(ready), ready.bytes) != (sum(count for count, _ in held), sum(size for _, size in held)):
        yield f"{len(ready)} tasks of {ready.bytes} bytes are counted in slots, which hold others"
    leases = Counter(task.slot for task in queue.processing.leased.values() if task.slot >= slots.division)
    if dict(leases) != slots.leases:
        yield f"slots count {sum(slots.leases.values())} leases, there are {leases.total()}, or others"
    for slot in slots.by_number.values():
        yield from (f"slot {slot.record.name!r}: {problem}" for problem in _check_slot(slots, slot, clock))


def _is_all(slots: SlotTable) -> bool:
    """Whether all ready tasks are in memory."""
    entries = slots.entries
    is_known = entries.floor == entries.time_floor == NO_FLOOR and not entries.wanted and not slots.is_moving
    return is_known and not any(slot.head.is_partial for slot in slots.by_number.values())


def _check_slot(slots: SlotTable, slot: Slot, clock: SlotClock) -> Iterator[str]:
    if slots.by_name.get(slot.record.name) is not slot:
        yield "is not known by its name"
    yield from _check_head("ready", slot.head)
    if any(key >> SLOT_SHIFT != slot.number for key in slot.head.entries):
        yield "holds a task of another slot"
    if slot.leases != slots.leases.get(slot.number, 0):
        yield f"counts {slot.leases} leases of {slots.leases.get(slot.number, 0)}"
    first = slot.head.first()
    if first is not None and not 0 < slot.entry <= entry_of(first.key):
        yield "has tasks without an entry that is early enough"
    if slot.place == "ready" and slot.looks_at() > clock.now:
        yield "is ready before its time"
    if slot.place == "ready" and first is not None and slot.mark > entry_of(first.key):
        yield "is ready behind its best task"
    if slot.place == "waiting" and slot.mark >> NUMBER_BITS not in (slot.looks_at(), slot.forgotten_at()):
        yield "waits for another time than its own"
    if slot.place != "parked" and slot.is_full:
        yield "is not parked, although it is full"
    if slot.place == "parked" and not slot.is_full and slot.number not in slots.dry and not slot.leases:
        yield "is parked for no reason"
