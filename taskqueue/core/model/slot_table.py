"""Slots of a project in memory: where each waits, when it goes on, and its entries in the store.

    ready      slots that may go, by their best task
    waiting    slots that may go later, by time
    parked     slots with as many leases as they may have, or whose next tasks are to be read

A slot is in one of these places. It leaves memory when it has neither ready tasks nor leases, and its window has ended;
its record keeps longer windows. See ``slot_queue`` for the bounds of memory, and ``slot`` for the pace.

In a place slots are ordered by *marks* (``SlotHeap``), integers that end with the slot's number, the smallest first. A
mark that its slot no longer has is dead: it is dropped when it comes up, and all are swept out when they outnumber
the slots, so entering costs O(log n) on average.

Entries in the store, as far as memory knows them, and writes of them by a turn (``SlotEntries``):

    by best task   ……… low ……… [ in memory, or wanted …………… ) floor [ in the store only ………
    by time                      [ nothing ………………………… ) time_floor [ in the store only ………

Rules:
1. All slots with an entry by best task below the floor are in memory, or wanted: they are read for one of the next
   turns. Without a floor (``NO_FLOOR``) these are all slots.
2. Entries by time are deleted when they are read; there are none below ``time_floor``.
3. An entry made in this turn for a slot that is not in memory is replaced by a better one; older ones are
   unknown, so a slot may have several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from math import ceil, inf
from typing import Final

from taskqueue.core.model.back_off import next_delay
from taskqueue.core.model.heads import Head
from taskqueue.core.model.slot import LONG_WINDOW, SECOND, Place, Slot, SlotClock
from taskqueue.core.model.slot_pace import SlotPace
from taskqueue.core.model.slot_records import LAST_TIME, NUMBER_BITS, NUMBER_MASK, SlotRecord, SlotWrites
from taskqueue.core.model.task import NO_FLOOR, SLOT_SHIFT

SWEEP_AT_LEAST: Final = 64
"""Dead marks below which a sweep does not pay."""


class SlotHeap:
    """Slots in a place.

    Args:
        slots: all slots in memory, by number.
    """

    __slots__ = ("_marks", "_place", "_slots")

    def __init__(self, place: Place, slots: dict[int, Slot]) -> None:
        self._place = place
        self._slots = slots
        self._marks: list[int] = []

    def push(self, mark: int) -> None:
        """Add a slot that has come to this place, by its mark."""
        marks = self._marks
        if len(marks) > 2 * len(self._slots) + SWEEP_AT_LEAST:
            marks[:] = [slot.mark for slot in self._slots.values() if slot.place == self._place]
            heapify(marks)
        elif not marks or marks[0] != mark:
            heappush(marks, mark)

    def first(self) -> Slot | None:
        """Return the slot with the smallest mark; None if there is no slot here."""
        marks, slots, place = self._marks, self._slots, self._place
        while marks:
            mark = marks[0]
            slot = slots.get(mark & NUMBER_MASK)
            if slot is not None and slot.mark == mark and slot.place == place:
                return slot
            heappop(marks)
        return None


LOOK_EVERY: Final = 4096
"""Entries deleted until the lower bound of the rest is determined again."""

WANTED_MOST = 4096
"""Slots that are to be read, at most; the worst ones beyond are left above the floor."""


class SlotEntries:
    """Entries in the store, as far as they are known.

    Attributes:
        floor, time_floor: floors of the two orders.
        low: lower bound of all entries by best task.
        wanted: best entry, made since it left memory, of each slot that is to be read, by number.
        writes: writes of this turn.
    """

    __slots__ = ("_cold", "_deleted", "_division", "_project", "floor", "low", "time_floor", "wanted", "writes")

    def __init__(self, project: int, division: int) -> None:
        self._project = project
        self._division = division
        self._cold: dict[int, int] = {}
        self._deleted = 0
        self.floor = NO_FLOOR
        self.time_floor = NO_FLOOR
        self.low = NO_FLOOR
        self.wanted: dict[int, int] = {}
        self.writes = SlotWrites(project, division)

    def open(self, low: int, time_low: int) -> None:
        """Start with all entries in the store only, with these lower bounds."""
        self.floor = self.low = low
        self.time_floor = NO_FLOOR if time_low >= LAST_TIME else time_low

    def write(self, entry: int) -> None:
        """Store an entry by best task."""
        self.writes.best[entry] = True
        self.low = min(self.low, entry)

    def delete(self, entry: int) -> None:
        """Delete an entry by best task; 0 for none."""
        if entry:
            self.writes.best[entry] = False
            self._deleted += 1

    def write_old(self, entry: int) -> None:
        """Store an entry of ready tasks outside the division in force."""
        self.writes.old[0, entry] = True

    def write_time(self, entry: int) -> None:
        """Store an entry by time."""
        self.writes.time[entry] = True
        self.time_floor = min(self.time_floor, entry)

    def delete_time(self, entry: int) -> None:
        """Delete an entry by time."""
        self.writes.time[entry] = False

    def note_cold(self, number: int, entry: int) -> None:
        """Record that a task of a slot outside memory has become ready."""
        known = self.wanted.get(number) or self._cold.get(number, 0)
        if known and known <= entry:
            return
        self.delete(known)
        self.write(entry)
        if entry < self.floor:
            self.wanted[number] = entry
        else:
            self._cold[number] = entry

    def leave_worst(self) -> None:
        """Leave the worst wanted slots above the floor, if there are too many."""
        if len(self.wanted) > WANTED_MOST:
            ordered = sorted(self.wanted, key=self.wanted.__getitem__)
            for number in ordered[WANTED_MOST // 2 :]:
                self.floor = min(self.floor, self.wanted.pop(number))

    def raise_low(self, in_memory: Iterable[int]) -> None:
        """Determine the lower bound again, given the entries of the slots in memory."""
        in_store = min(self.floor, min(self.wanted.values(), default=NO_FLOOR))
        self.low = min(in_store, min(in_memory, default=NO_FLOOR))
        self._deleted = 0

    @property
    def is_low_old(self) -> bool:
        """True if enough entries are gone to determine the lower bound again."""
        return self._deleted >= LOOK_EVERY

    def clear(self) -> None:
        """Drop all entries."""
        self.wanted.clear()
        self._cold.clear()
        self.floor = self.time_floor = self.low = NO_FLOOR
        self.writes.best.clear()
        self.writes.time.clear()
        self.writes.old.clear()

    def take(self) -> SlotWrites:
        """Return the writes since the last call."""
        writes, self.writes = self.writes, SlotWrites(self._project, self._division)
        self._cold.clear()
        return writes


PaceOf = Callable[[SlotRecord], SlotPace]

FRONT_SLOTS = 512
"""Ready slots in memory below which more are read."""

FIRST_TASKS = 8
"""Tasks with which a slot enters memory; each further read has twice as many."""

LONG_AGO: Final = -(1 << 62)

_BEST_MASK: Final = (1 << SLOT_SHIFT) - 1


def entry_of(key: int) -> int:
    """Return the entry, by best task, of a slot whose best task has this place."""
    return (key & _BEST_MASK) << NUMBER_BITS | key >> SLOT_SHIFT


class SlotTable:
    """Slots of one project.

    Args:
        project: number of the project.
        pace_of: function that returns the pace of a slot with this record.
        division: first number of the division in force.
        next_number: number of the next new slot.
        most: slots in memory, at most, besides those with leases.

    Attributes:
        since: boot-clock ticks at which the daemon started, or the division began. Earlier dispatches are unknown, so
            no slot goes on before its window, of a minute at most, has passed.
        by_number, by_name: slots in memory.
        leases: number of dispatched tasks of each slot, in memory or not, by its number.
        entries: its entries in the store.
        dry: slots whose next tasks are to be read, by number.
        is_moving: True if there may be ready tasks of former divisions.
        tight: True if memory was too small, so that nothing is read before it is needed.
    """

    __slots__ = (
        "_clock", "_in_front", "_new", "_pace_of", "_ready", "_waiting", "by_name", "by_number", "division", "dry",
        "entries", "is_moving", "leases", "most", "next_number", "since", "tight",
    )  # fmt: skip

    def __init__(
        self, project: int, clock: SlotClock, pace_of: PaceOf, division: int, next_number: int, most: int
    ) -> None:
        self._clock = clock
        self._pace_of = pace_of
        self.division = division
        self.next_number = next_number
        self.most = most
        self.since = LONG_AGO
        self.by_number: dict[int, Slot] = {}
        self.by_name: dict[str, Slot] = {}
        self.leases: dict[int, int] = {}
        self.entries = SlotEntries(project, division)
        self.dry: dict[int, Slot] = {}
        self.is_moving = False
        self.tight = False
        self._ready = SlotHeap("ready", self.by_number)
        self._waiting = SlotHeap("waiting", self.by_number)
        self._in_front = 0
        self._new: dict[str, int] = {}

    # ------------------------------------------------------------------------------------ dispatch

    def lend(self, number: int) -> float:
        """Dispatch the task that was popped; return the seconds until it may be started."""
        slot = self.by_number[number]
        wait = slot.begin(self._clock)
        self.leases[number] = slot.leases
        if slot.due - self._clock.begun > LONG_WINDOW:
            self.keep(slot)
        self.put(slot)
        return wait / SECOND

    def give_back(self, number: int) -> None:
        """End a lease of the slot."""
        if number not in self.leases:
            return  # of a former division
        self.leases[number] -= 1
        if not self.leases[number]:
            del self.leases[number]
        slot = self.by_number.get(number)
        if slot is not None:
            slot.leases -= 1
            self.put(slot)

    def restore_lease(self, number: int) -> None:
        """Count a task of the slot that was dispatched before the start."""
        if number >= self.division:
            self.leases[number] = self.leases.get(number, 0) + 1

    def sent_again(self, number: int, seconds: float) -> None:
        """Record that a ``select`` is sent again, with a task to be started in ``seconds``."""
        slot = self.by_number.get(number)
        if slot is not None:
            slot.began_at(self._clock.begun + ceil(seconds * SECOND))
            self.put(slot)

    def answered(self, slot: Slot, seconds: float, *, is_proper: bool) -> None:
        """Record a report on a task that took ``seconds``; see ``next_delay`` for ``is_proper``."""
        before = slot.due
        slot.began_at(self._clock.begun - int(seconds * SECOND))
        if slot.pace.is_auto:
            slot.record.auto_delay = next_delay(slot.pace.interval, seconds, is_proper=is_proper)
            slot.pace = self._pace_of(slot.record)
            slot.record.auto_delay = slot.pace.interval
            slot.slow_down()
        if slot.is_delay_wrong or (slot.due > before and slot.due - self._clock.begun > LONG_WINDOW):
            self.keep(slot)
        self.put(slot)

    def advance(self, budget: int) -> int:
        """Move slots whose time has come, ``budget`` at most; return how many."""
        moved = 0
        while moved < budget and (slot := self._waiting.first()) is not None:
            if slot.mark >> NUMBER_BITS > self._clock.now:
                break
            self.put(slot)
            moved += 1
        return moved

    def next_at(self) -> float:
        """Return when the next slot may go on, or the next ones are to be read, in boot-clock seconds; inf if never."""
        slot = self._waiting.first()
        times = [] if slot is None else [slot.mark >> NUMBER_BITS]
        if self.entries.time_floor != NO_FLOOR:
            times.append(self._time_of(self.entries.time_floor))
        return min(times) / SECOND if times else inf

    # ------------------------------------------------------------------------------------ slots

    def number_of(self, name: str) -> int:
        """Return the number of a slot that is in memory, or new in this turn; 0 for other slots."""
        slot = self.by_name.get(name)
        return slot.number if slot is not None else self._new.get(name, 0)

    def make(self, record: SlotRecord) -> int:
        """Create a slot; return its number."""
        number = self.next_number
        self.next_number += 1
        self._new[record.name] = self.entries.writes.names[record.name] = number
        self.entries.writes.records[number] = record
        if self.entries.floor == NO_FLOOR and len(self.by_number) < self.most:
            self.take_in(number, record, Head())
        return number

    def changed(self, slot: Slot) -> None:
        """Store and apply the changed record of a slot in memory."""
        slot.pace = self._pace_of(slot.record)
        slot.wait_until(self._clock)
        self.keep(slot)
        self.put(slot)

    def repace(self, slot: Slot) -> None:
        """Apply an operator's change of a slot in memory: it goes on as soon as the new pace allows."""
        slot.pace = self._pace_of(slot.record)
        slot.slow_down()
        slot.hurry(slot.last if slot.last > max(0, self.since) else self._clock.begun)
        self.changed(slot)

    def repace_stored(self, number: int, record: SlotRecord, pace: SlotPace) -> None:
        """Store an operator's change of a slot outside memory, and have the slot read."""
        soonest = self._clock.begun + Slot(number, record, pace, Head()).window
        record.next_at = min(record.next_at, self._clock.to_wall(soonest))
        self.entries.writes.records[number] = record
        self.entries.write_time(self.time_bound() | number)

    def keep(self, slot: Slot) -> None:
        """Store the record of a slot, with its window."""
        slot.record.next_at = self._clock.to_wall(slot.due) if slot.due > self._clock.now else 0.0
        slot.kept_delay = slot.record.auto_delay
        self.entries.writes.records[slot.number] = slot.record

    def keep_record(self, number: int, record: SlotRecord) -> None:
        """Store the record of a slot that may not be in memory."""
        slot = self.by_number.get(number)
        if slot is not None:
            self.keep(slot)
        else:
            self.entries.writes.records[number] = record

    def keep_window(self, slot: Slot) -> None:
        """Store the unsaved state of a slot that leaves memory: its window, if it has or had one, and its block."""
        follows = slot.follow_clock(self._clock)
        if follows or slot.due > self._clock.now or slot.record.next_at or slot.is_delay_old:
            self.keep(slot)

    def time_entry(self, slot: Slot) -> int:
        """Return the entry by time of a waiting slot."""
        return (int(self._clock.to_wall(slot.looks_at()) * 1000) + 1) << NUMBER_BITS | slot.number

    def change_paces(self) -> None:
        """Apply changed settings to the slots in memory."""
        for slot in list(self.by_number.values()):
            slot.pace = self._pace_of(slot.record)
            self.put(slot)

    def clear(self) -> None:
        """Drop all ready tasks and leases; back-offs, blocks and windows of slots stay."""
        slots = list(self.by_number.values())
        for slot in slots:
            slot.head = Head()
            slot.entry = slot.leases = slot.mark = 0
            slot.place = "parked"
        self.leases.clear()
        self.dry.clear()
        self.entries.clear()
        self._in_front = 0
        self.is_moving = False
        for slot in slots:
            self.put(slot)

    def open(self, low: int, time_low: int) -> None:
        """Start, after a start of the daemon, with the slots of the store and these lower bounds of the two orders."""
        self.since = self._clock.begun
        self.entries.open(low, time_low)

    def begin(self) -> None:
        """Record that the division begins now."""
        self.since = self._clock.begun

    def bound(self, most: int) -> None:
        """Set the most slots in memory, besides those with leases."""
        self.most = most

    def is_paced(self, number: int) -> bool:
        """Return whether the slot has a pace; a slot outside memory counts as having one."""
        slot = self.by_number.get(number)
        if slot is None:
            return number >= self.division
        return slot.pace.interval > 0 or slot.pace.most < inf

    def note_old(self, entry: int) -> None:
        """Record the entry of a ready task that belongs to no slot of this division."""
        self.entries.write_old(entry)
        self.is_moving = True

    def take_moving(self) -> bool:
        """Return whether ready tasks of former divisions have appeared since the last call."""
        is_moving, self.is_moving = self.is_moving, False
        return is_moving

    def take_writes(self) -> SlotWrites | None:
        """Return the writes since the last call; None if there are none."""
        for number in self._new.values():
            slot = self.by_number.get(number)
            if slot is not None and slot.place == "parked":
                self.put(slot)  # none of its tasks has become ready
        self._new.clear()
        writes = self.entries.take()
        if writes.best or writes.time or writes.old or writes.records or writes.names:
            return writes
        return None

    # ------------------------------------------------------------------------------------ reads

    @property
    def wants_reads(self) -> bool:
        """True if any slots or tasks are to be read for the next turn."""
        return bool(self.dry or self.entries.wanted) or self.is_low or self.is_time

    @property
    def is_low(self) -> bool:
        """True if the store has more slots, by best task, and few are ready here, or none that is as good."""
        floor = self.entries.floor
        if floor == NO_FLOOR:
            return False
        few = 1 if self.tight else max(1, min(FRONT_SLOTS, self.most // 4))
        if self._in_front < few:
            return True
        first = self._ready.first()
        return first is None or first.mark >= floor  # the next slot is in the store

    @property
    def is_time(self) -> bool:
        """True if slots that wait in the store may go on."""
        floor = self.entries.time_floor
        return floor != NO_FLOOR and self._time_of(floor) <= self._clock.now

    def time_bound(self) -> int:
        """Return the entry by time above all that are due now."""
        return (int(self._clock.to_wall(self._clock.now) * 1000) + 1) << NUMBER_BITS

    # ------------------------------------------------------------------------------------ places

    def first_ready(self) -> Slot | None:
        """Return the slot with the next task; a caller that finds another task at its head must ``put`` it anew."""
        return self._ready.first()

    def take_in(self, number: int, record: SlotRecord, head: Head) -> Slot:
        slot = Slot(number, record, self._pace_of(record), head)
        slot.leases = self.leases.get(number, 0)
        slot.read_tasks = FIRST_TASKS
        slot.wait_until(self._clock)
        since = self.since + min(slot.window, LONG_WINDOW)
        slot.due = max(self._clock.due_from_wall(record.next_at, slot.window), since) if record.next_at else since
        self.by_number[number] = self.by_name[record.name] = slot
        return slot

    def put(self, slot: Slot) -> None:
        """Put the slot in its present place, or out of memory."""
        if slot.place == "ready":
            self._in_front -= 1
        slot.place = "parked"
        slot.mark = 0
        if slot.is_full:
            return
        first = slot.head.first()
        if first is None and slot.head.is_partial:
            self.dry[slot.number] = slot
            return
        at = slot.forgotten_at() if first is None else slot.looks_at()
        if at > self._clock.now:
            slot.place = "waiting"
            slot.mark = at << NUMBER_BITS | slot.number
            self._waiting.push(slot.mark)
        elif first is not None:
            slot.place = "ready"
            slot.mark = entry_of(first.key)
            self._in_front += 1
            self._ready.push(slot.mark)
        elif not slot.leases and not slot.aside:
            if slot.is_delay_old:
                self.keep(slot)
            self.forget(slot)

    def forget(self, slot: Slot) -> None:
        """Remove a slot from memory."""
        if slot.place == "ready":
            self._in_front -= 1
        self.entries.delete(slot.entry)
        self.dry.pop(slot.number, None)
        del self.by_number[slot.number]
        del self.by_name[slot.record.name]

    def enter(self, slot: Slot, entry: int) -> None:
        """Replace the entry of a slot in memory whose best task is better than that."""
        self.entries.delete(slot.entry)
        slot.entry = entry
        self.entries.write(entry)

    def _time_of(self, entry: int) -> int:
        """Return the time of an entry by time, on the boot clock."""
        return self._clock.from_wall((entry >> NUMBER_BITS) / 1000)
