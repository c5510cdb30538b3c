"""The entries of a project's slots in the store, as far as memory knows them, and what a turn writes of them.

    by best task   ……… low ……… [ in memory, or wanted …………… ) floor [ in the store only ………
    by time                      [ nothing ………………………… ) time_floor [ in the store only ………

Rules:
1. All slots with an entry by best task below the floor are in memory, or wanted: they are read for one of the next
   turns. Without a floor (``NO_FLOOR``) these are all slots.
2. Entries by time are deleted when they are read; there are none below ``time_floor``.
3. An entry that was made in this turn for a slot that is not in memory is replaced by a better one; of older ones
   nothing is known, so a slot may have several.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from taskqueue.core.tasks.slots.slot_records import LAST_TIME, SlotWrites
from taskqueue.core.tasks.task import NO_FLOOR

LOOK_EVERY: Final = 4096
"""So many entries are deleted before the lower bound of the rest is determined again."""

WANTED_MOST = 4096
"""Slots that are to be read, at most; of more the worst ones are left to when their turn comes."""


class SlotEntries:
    """What is known of the entries.

    Attributes:
        floor, time_floor: of the two orders.
        low: a lower bound of all entries by best task.
        wanted: by number of a slot that is to be read, the best entry that was made since it left memory.
        writes: of this turn.
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
        """All entries are in the store only, with these lower bounds."""
        self.floor = self.low = low
        self.time_floor = NO_FLOOR if time_low >= LAST_TIME else time_low

    def write(self, entry: int) -> None:
        """Store an entry by best task."""
        self.writes.best[entry] = True
        self.low = min(self.low, entry)

    def delete(self, entry: int) -> None:
        """Delete an entry by best task; 0: there is none."""
        if entry:
            self.writes.best[entry] = False
            self._deleted += 1

    def write_old(self, entry: int) -> None:
        """Store an entry of what is not of the division in force."""
        self.writes.old[0, entry] = True

    def write_time(self, entry: int) -> None:
        """Store an entry by time."""
        self.writes.time[entry] = True
        self.time_floor = min(self.time_floor, entry)

    def delete_time(self, entry: int) -> None:
        """Delete an entry by time."""
        self.writes.time[entry] = False

    def note_cold(self, number: int, entry: int) -> None:
        """A task of a slot that is not in memory has become ready."""
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
        """If too many slots are wanted, leave the worst of them above the floor."""
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
        """So many entries have gone that their lower bound is worth a look."""
        return self._deleted >= LOOK_EVERY

    def clear(self) -> None:
        """All entries are gone."""
        self.wanted.clear()
        self._cold.clear()
        self.floor = self.time_floor = self.low = NO_FLOOR
        self.writes.best.clear()
        self.writes.time.clear()
        self.writes.old.clear()

    def take(self) -> SlotWrites:
        """What was written since the last call."""
        writes, self.writes = self.writes, SlotWrites(self._project, self._division)
        self._cold.clear()
        return writes
