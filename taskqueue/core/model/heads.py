"""Orders of a project in memory: heads of waiting tasks, and all processing tasks.

``Head`` contains the first tasks of an order that is stored in full. One class serves ready and delayed tasks, which
differ only in their keys:

    keys   smallest ──────────────────────────────────► largest
           [ in the heap ............. ) floor [ in the store only ............ ]

Rules:
1. The heap has exactly the stored entries below the floor; without a floor (``NO_FLOOR``) all of them.
2. Removing an entry leaves its key in the heap as a tombstone; when tombstones outnumber the entries they are
   swept out, so a removal costs O(log n) on average, and memory is bounded by the number of entries.
3. An empty heap with a floor does not mean an empty order: the next entries must be read from the store.

Keys are plain integers (see ``task``): comparing them stays in C, five times faster than comparing tuples.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final

from taskqueue.core.model.task import NO_FLOOR, Task

SWEEP_AT_LEAST: Final = 64
"""Tombstones below which a sweep does not pay."""


class Head:
    """Head of one order, smallest key first."""

    __slots__ = ("bytes", "entries", "floor", "heap", "tight")

    def __init__(self, floor: int = NO_FLOOR) -> None:
        self.heap: list[int] = []
        self.entries: dict[int, Task] = {}
        self.floor = floor
        self.bytes = 0
        self.tight = False

    def __len__(self) -> int:
        return len(self.entries)

    def add(self, task: Task) -> bool:
        """Add the task at its key; return False, changing nothing, if the key is not below the floor."""
        key = task.key
        if key >= self.floor:
            return False
        self.entries[key] = task
        self.bytes += task.size
        heappush(self.heap, key)
        return True

    def remove(self, task: Task) -> None:
        """Remove the task, if it is in the head."""
        if self.entries.pop(task.key, None) is None:
            return
        self.bytes -= task.size
        if len(self.heap) > 2 * len(self.entries) + SWEEP_AT_LEAST:
            self.heap = list(self.entries)
            heapify(self.heap)

    @property
    def is_partial(self) -> bool:
        """True if there are further entries in the store."""
        return self.floor != NO_FLOOR

    def holds(self, task: Task) -> bool:
        """Return whether the task is here, at its key."""
        return self.entries.get(task.key) is task

    def first(self) -> Task | None:
        """Return the task with the smallest key; None if the head is empty."""
        heap, entries = self.heap, self.entries
        while heap:
            task = entries.get(heap[0])
            if task is not None:
                return task
            heappop(heap)
        return None

    def pop(self) -> Task:
        """Remove the task that ``first`` has just returned."""
        task = self.entries.pop(heappop(self.heap))
        self.bytes -= task.size
        return task

    def resize(self, task: Task, size: int) -> None:
        """Set the memory size of a task to ``size`` bytes."""
        if task.key in self.entries:
            self.bytes += size - task.size
        task.size = size

    def low_key(self) -> int:
        """Return a lower bound of all keys of the order, in memory or stored."""
        first = self.first()
        return self.floor if first is None else first.key

    def trim(self, max_tasks: int, max_bytes: int) -> list[Task]:
        """Drop the upper part of a head that exceeds its bounds, and lower the floor; return the dropped tasks.

        Half of the tasks, or of the bytes, remain, so that trims are rare; but at least one task, however large.
        """
        if len(self.entries) <= max_tasks and (self.bytes <= max_bytes or len(self.entries) == 1):
            return []
        self.tight = self.bytes > max_bytes
        most_bytes = max_bytes // 2 if self.tight else max_bytes
        most = len(self.entries) // 2 if len(self.entries) > max_tasks else len(self.entries)
        self.heap = sorted(self.entries)
        dropped: list[Task] = []
        while len(self.heap) > 1 and (len(self.heap) > most or self.bytes > most_bytes):
            self.floor = self.heap.pop()
            dropped.append(self.entries.pop(self.floor))
            self.bytes -= dropped[-1].size
        return dropped[::-1]

    def is_low(self, max_tasks: int, max_bytes: int) -> bool:
        """Return whether few entries are left here and the store has more.

        After a trim by bytes the next entries are known to be large: they are read only when the head is empty, because
        otherwise they would be read and dropped again and again.
        """
        if self.floor == NO_FLOOR:
            return False
        if self.tight:
            return not self.entries
        return len(self.entries) <= max_tasks // 4 and (self.bytes <= max_bytes // 4 or not self.entries)

    def refill(self, tasks: Iterable[Task], *, end: bool) -> None:
        """Add the next entries at and above the floor; with ``end`` there are none after them."""
        last = self.floor
        self.floor = NO_FLOOR
        self.tight = False
        for task in tasks:
            self.add(task)
            last = task.key + 1
        if not end:
            self.floor = last


class Processing:
    """All processing tasks, by token; always in memory, as capacities bound their number.

    Each is in the heap by the time at which four fifths of its lease have passed. Only then, which few tasks see, does
    its deadline get an entry: so a dispatch costs one entry.
    """

    __slots__ = ("heap", "leased")

    def __init__(self) -> None:
        self.leased: dict[int, Task] = {}
        self.heap: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self.leased)

    def add(self, task: Task, at: float) -> None:
        """Add a task whose lease has to be looked at ``at`` that time (boot-clock seconds)."""
        self.leased[task.token] = task
        heappush(self.heap, (at, task.token))

    def look_at(self, task: Task, at: float) -> None:
        """Set the time at which the lease has to be looked at next, which its task has as well."""
        heappush(self.heap, (at, task.token))
        if len(self.heap) > 2 * len(self.leased) + SWEEP_AT_LEAST:
            self._sweep()

    def remove(self, task: Task) -> None:
        """Remove the task's lease."""
        del self.leased[task.token]
        if len(self.heap) > 2 * len(self.leased) + SWEEP_AT_LEAST:
            self._sweep()

    def first(self) -> Task | None:
        """Return the task whose lease has to be looked at next; None if there is none."""
        heap = self.heap
        while heap:
            at, token = heap[0]
            task = self.leased.get(token)
            if task is not None and task.lease is not None and at in (task.lease.slow_at, task.lease.deadline):
                return task
            heappop(heap)
        return None

    def next_at(self) -> float:
        """Return when the next lease has to be looked at, in boot-clock seconds; inf if there is none."""
        return inf if self.first() is None else self.heap[0][0]

    def next_deadline(self) -> float:
        """Return when the next lease runs out, in boot-clock seconds; inf if there is none. Costs a pass over all."""
        return min((task.lease.deadline for task in self.leased.values() if task.lease), default=inf)

    def _sweep(self) -> None:
        """Remove heap entries of moved times and ended leases."""
        self.heap = [
            (task.lease.slow_at if task.lease.slow_at < task.lease.deadline else task.lease.deadline, token)
            for token, task in self.leased.items()
            if task.lease
        ]
        heapify(self.heap)
