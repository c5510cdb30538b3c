"""The slots of a project that are in one place, by their marks, the smallest first.

A mark is an integer that ends with the slot's number. One that is not its slot's any more is dead: it is dropped when
it comes up, and all are swept out when they outnumber the slots, so that to enter costs O(log n) on average.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

from taskqueue.core.tasks.slots.slot import Place, Slot
from taskqueue.core.tasks.slots.slot_records import NUMBER_MASK

SWEEP_AT_LEAST: Final = 64
"""Fewer dead marks than this are not worth a sweep."""


class SlotHeap:
    """The slots in a place.

    Args:
        slots: all that are in memory, by number.
    """

    __slots__ = ("_marks", "_place", "_slots")

    def __init__(self, place: Place, slots: dict[int, Slot]) -> None:
        self._place = place
        self._slots = slots
        self._marks: list[int] = []

    def push(self, mark: int) -> None:
        """A slot has come to this place, with this mark."""
        marks = self._marks
        if len(marks) > 2 * len(self._slots) + SWEEP_AT_LEAST:
            marks[:] = [slot.mark for slot in self._slots.values() if slot.place == self._place]
            heapify(marks)
        elif not marks or marks[0] != mark:
            heappush(marks, mark)

    def first(self) -> Slot | None:
        """The slot with the smallest mark; None: there is no slot here."""
        marks, slots, place = self._marks, self._slots, self._place
        while marks:
            mark = marks[0]
            slot = slots.get(mark & NUMBER_MASK)
            if slot is not None and slot.mark == mark and slot.place == place:
                return slot
            heappop(marks)
        return None
