"""Ready tasks of a project with slots, in place of the head of its ready tasks.

    slots by best task            ─┐ in memory: slots below the floor of their order, and slots with leases;
    slots by when they may go on  ─┘ all others only in the store

The next task is the best one of the best ready slot. A slot in memory has an *entry* in the store nevertheless, from
when its best task was at least as good, so that it is found after a crash. That costs no write while its tasks come
and go.

Rules:
1. A task enters the head of its slot, if that is in memory. If not, it is in the store, and an entry is made; if the
   entry is below the floor, the slot is to be read.
2. A slot that leaves memory gets an entry that is exact then. Without tasks it needs none: its record keeps its
   window, its back-off and its block, for when tasks come again.
3. A slot without ready tasks and leases leaves memory at the end of its window.
4. Tasks of former divisions are not in memory; they stay in the store until ``slot_division`` has moved them.
"""

from __future__ import annotations

from typing import Final

from taskqueue.core.model.heads import Head
from taskqueue.core.model.slot import Slot
from taskqueue.core.model.slot_records import NUMBER_MASK, FoundSlot, FoundSlotPage
from taskqueue.core.model.slot_table import FIRST_TASKS, SlotTable, entry_of
from taskqueue.core.model.task import NO_FLOOR, SLOT_SHIFT, TASK_BYTES, Task
from taskqueue.errors import Corrupt, Damaged

MOST_TASKS: Final = 1024
"""Tasks of a slot that are read at once, at most."""


class SlotQueue:
    """Ready tasks of one project, slot by slot.

    Args:
        tasks: tasks of the project in memory, by taskid.

    Attributes:
        slots: slots in memory.
        bytes: bytes of the ready tasks in memory.
    """

    __slots__ = ("_count", "_most_bytes", "_most_tasks", "_tasks", "bytes", "slots")

    def __init__(self, tasks: dict[str, Task], slots: SlotTable) -> None:
        self._tasks = tasks
        self._count = 0
        self._most_bytes = self._most_tasks = 0
        self.slots = slots
        self.bytes = 0

    def __len__(self) -> int:
        """Return the number of tasks in memory."""
        return self._count

    def add(self, task: Task) -> bool:
        """Add a ready task at its key; return False if it is only in the store."""
        number = task.key >> SLOT_SHIFT
        entry = entry_of(task.key)
        if number < self.slots.division:
            self.slots.note_old(entry)
            return False
        slot = self.slots.by_number.get(number)
        if slot is None:
            self.slots.entries.note_cold(number, entry)
            return False
        if not slot.head.add(task):
            return False
        self._count += 1
        self.bytes += task.size
        if not slot.entry or entry < slot.entry:
            self.slots.enter(slot, entry)
        if slot.place == "parked" or len(slot.head) == 1 or (slot.place == "ready" and entry < slot.mark):
            self.slots.put(slot)
        return True

    def holds(self, task: Task) -> bool:
        """Return whether the task is here, at its key."""
        slot = self.slots.by_number.get(task.key >> SLOT_SHIFT)
        return slot is not None and slot.head.holds(task)

    def remove(self, task: Task) -> None:
        """Remove the task, if it is in memory; its slot is placed anew when it comes up."""
        slot = self.slots.by_number.get(task.key >> SLOT_SHIFT)
        if slot is not None and task.key in slot.head.entries:
            slot.head.remove(task)
            self._count -= 1
            self.bytes -= task.size

    def stand_aside(self, task: Task) -> None:
        """Take out the task that ``first`` has just returned, until ``come_back``, to reach the next one."""
        self.slots.by_number[task.key >> SLOT_SHIFT].aside += 1
        self.remove(task)

    def come_back(self, task: Task) -> bool:
        """Add a task that stood aside again; return False if it is only in the store."""
        self.slots.by_number[task.key >> SLOT_SHIFT].aside -= 1
        return self.add(task)

    def first(self) -> Task | None:
        """Return the best task that may go now; None if there is none in memory."""
        while (slot := self.slots.first_ready()) is not None:
            task = slot.head.first()
            if task is not None and entry_of(task.key) == slot.mark:
                return task
            self.slots.put(slot)
        return None

    def pop(self) -> Task:
        """Remove the task that ``first`` has just returned; ``lend`` must follow."""
        slot = self.slots.first_ready()
        if slot is None:
            raise Corrupt("no slot is ready")
        task = slot.head.pop()
        self._count -= 1
        self.bytes -= task.size
        return task

    def resize(self, task: Task, size: int) -> None:
        """Set the memory size of a task to ``size`` bytes."""
        slot = self.slots.by_number.get(task.key >> SLOT_SHIFT)
        if slot is None or task.key not in slot.head.entries:
            task.size = size
            return
        self.bytes += size - task.size
        slot.head.resize(task, size)

    def low_key(self) -> int:
        """Return a lower bound of all entries by best task, in memory or stored."""
        return self.slots.entries.low

    def trim(self, max_tasks: int, max_bytes: int) -> list[Task]:
        """Drop tasks and slots that exceed the bounds from memory, down to half; return the tasks.

        The worst ready slots leave, and those that wait longest. At least one slot stays, with a task.
        """
        self.slots.entries.leave_worst()
        max_tasks = max(max_tasks, self.slots.most)
        self._most_tasks, self._most_bytes = max_tasks, max_bytes
        if self._is_within(max_tasks, max_bytes, self.slots.most):
            if self.slots.entries.is_low_old:
                self._raise_low()
            return []
        self.slots.tight = self.bytes > max_bytes or self._count > max_tasks
        dropped = self._shorten(max_tasks, max_bytes)
        while len(self.slots.by_number) > 1 and not self._is_within(max_tasks, max_bytes // 2, self.slots.most // 2):
            leaving = self._leaving()
            if not leaving:
                break
            for slot in leaving:
                dropped += self._evict(slot)
        self._raise_low()
        return dropped

    def _is_within(self, max_tasks: int, max_bytes: int, most: int) -> bool:
        return (
            self.bytes <= max_bytes
            and self._count <= max_tasks
            and len(self.slots.by_number) - len(self.slots.leases) <= most
        )

    def _shorten(self, max_tasks: int, max_bytes: int) -> list[Task]:
        """Drop the upper halves of the longest heads, if there are too many tasks."""
        dropped: list[Task] = []
        if self._count <= max_tasks and self.bytes <= max_bytes:
            return dropped
        each = max(1, max_tasks // (2 * max(1, len(self.slots.by_number))))
        for slot in self.slots.by_number.values():
            gone = slot.head.trim(each, max_bytes // 2)
            self._count -= len(gone)
            self.bytes -= sum(task.size for task in gone)
            dropped += gone
        return dropped

    def _leaving(self) -> list[Slot]:
        """Return the slots that leave memory next: half of those of the larger place."""
        free = [slot for slot in self.slots.by_number.values() if not slot.leases]
        ready = [slot for slot in free if slot.place == "ready"]
        others = [slot for slot in free if slot.place != "ready"]
        if len(others) > len(ready):
            others.sort(key=lambda slot: slot.mark)
            return others[len(others) // 2 :]
        ready.sort(key=lambda slot: slot.mark)
        return ready[max(1, len(ready) // 2) :]

    def _evict(self, slot: Slot) -> list[Task]:
        """Drop a slot from memory; return its tasks that were in memory."""
        self.slots.keep_window(slot)
        if slot.has_more:
            entry = self._entry_of_leaving(slot)
            if entry != slot.entry:
                self.slots.entries.delete(slot.entry)
            slot.entry = 0
        tasks = list(slot.head.entries.values())
        self._count -= len(tasks)
        self.bytes -= slot.head.bytes
        self.slots.forget(slot)
        return tasks

    def _entry_of_leaving(self, slot: Slot) -> int:
        """Write the entry of a slot that leaves memory with tasks; return it if it is by best task, else 0."""
        if slot.place == "waiting":
            self.slots.entries.write_time(self.slots.time_entry(slot))
            return 0
        first = slot.head.first()
        entry = entry_of(slot.head.floor if first is None else first.key)
        if entry != slot.entry:
            self.slots.entries.write(entry)
        self.slots.entries.floor = min(self.slots.entries.floor, entry)
        return entry

    def _raise_low(self) -> None:
        self.slots.entries.raise_low(slot.entry for slot in self.slots.by_number.values() if slot.entry)

    def clear(self) -> None:
        """Drop all ready tasks and leases; back-offs, blocks and windows of slots stay."""
        self.slots.clear()
        self._count = self.bytes = 0

    # ------------------------------------------------------------------------------------ reads

    def take_slot(self, number: int, found: FoundSlot) -> None:
        """Take in a slot that was wanted, or of which a task is reported; or the next tasks of a dry one."""
        slot = self.slots.dry.pop(number, None)
        if slot is not None:
            self._fill(slot, found)
            self.slots.put(slot)
        entry = self.slots.entries.wanted.pop(number, 0)
        if number not in self.slots.by_number and slot is None:
            self._read(number, found, entry)

    def take_page(self, found: FoundSlotPage) -> None:
        """Take in the next slots of an order."""
        by_time = found.ref.order == "time"
        for entry in found.entries:
            if by_time:
                self.slots.entries.delete_time(entry)
            self._take_entry(entry & NUMBER_MASK, 0 if by_time else entry, found)
        floor = NO_FLOOR if found.next is None else found.next
        if by_time:
            self.slots.entries.time_floor = floor
        else:
            self.slots.entries.floor = floor
            self.slots.tight = False

    def _take_entry(self, number: int, entry: int, found: FoundSlotPage) -> None:
        """Take in a slot by an entry by best task; 0 for an entry by time, which has been deleted."""
        slot = self.slots.by_number.get(number)
        wanted = self.slots.entries.wanted.get(number)
        if slot is not None:
            if entry != slot.entry:
                self.slots.entries.delete(entry)
        elif wanted is None:
            self._read(number, found.slots[number], entry)
        elif entry and entry != wanted:
            # It is read with all of its tasks soon; earlier ones than this entry were not read here.
            self.slots.entries.delete(max(entry, wanted))
            self.slots.entries.wanted[number] = min(entry, wanted)

    def _read(self, number: int, found: FoundSlot, entry: int) -> None:
        if found.record is None:
            raise Damaged(f"the store has no record of slot number {number}")
        slot = self.slots.take_in(number, found.record, Head(0))
        slot.entry = entry
        self._fill(slot, found)
        self.slots.put(slot)

    def _fill(self, slot: Slot, found: FoundSlot) -> None:
        for task in found.tasks:
            self._tasks[task.taskid] = task
        count, size = len(slot.head), slot.head.bytes
        slot.head.refill(found.tasks, end=found.end)
        self._count += len(slot.head) - count
        self.bytes += slot.head.bytes - size
        slot.read_tasks = min(2 * slot.read_tasks, max(FIRST_TASKS, min(MOST_TASKS, self._fair_part())))
        first = slot.head.first()
        if first is not None and not 0 < slot.entry <= entry_of(first.key):
            self.slots.enter(slot, entry_of(first.key))

    def _fair_part(self) -> int:
        """Return the number of tasks of each slot at which all slots in memory use half of the bounds.

        If reads took more, most of what was read would be dropped again, to be read once more.
        """
        size = self.bytes // self._count if self._count else TASK_BYTES
        return min(self._most_tasks, self._most_bytes // max(1, size)) // (2 * len(self.slots.by_number))
