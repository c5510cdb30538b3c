"""Bugs in pace, storage and lookup of slots, most of which random traffic beside a model notices."""

from __future__ import annotations

from typing import Any, Final

from taskqueue.core.model.project import Project
from taskqueue.core.model.slot import Slot
from taskqueue.core.model.slot_pace import SlotPace
from taskqueue.core.model.slot_records import NUMBER_BITS, FoundSlotPage
from taskqueue.core.model.slot_table import SlotEntries, SlotTable
from taskqueue.core.moves import slots
from taskqueue.core.steps import slot_division
from taskqueue.core.turn_state import TurnState
from tests.mutants.mutant import Mutant, Replace

SLOTS: Final = "properties/test_slots.py"
ORDER: Final = f"{SLOTS}::test_of_all_slots_that_may_go_the_one_with_the_best_task_is_next"
DEATHS: Final = f"{SLOTS}::test_no_slot_goes_early_or_has_too_much_out_and_none_is_left_out_whatever_dies_when"
DIVISIONS: Final = f"{SLOTS}::test_nothing_is_lost_or_early_however_often_a_project_is_divided_anew"
BLOCKS: Final = (
    "unit/core/rules/details/test_slot_reads.py"
    "::test_a_clock_that_is_put_forward_ends_no_block_of_a_slot_that_leaves_memory_afterwards"
)

LATE_MS: Final = 5000


def _window_forgotten(replace: Replace) -> None:
    replace(SlotTable, "keep_window", lambda self, slot: None)


def _late_time_entry(replace: Replace) -> None:
    def time_entry(self: SlotTable, slot: Slot) -> int:
        return int(original(self, slot)) + (LATE_MS << NUMBER_BITS)

    original = replace(SlotTable, "time_entry", time_entry)


def _leases_not_restored(replace: Replace) -> None:
    replace(SlotTable, "restore_lease", lambda self, number: None)


def _better_task_without_entry(replace: Replace) -> None:
    def enter(self: SlotTable, slot: Slot, entry: int) -> None:
        if not slot.entry:
            original(self, slot, entry)

    original = replace(SlotTable, "enter", enter)


def _rest_not_moved(replace: Replace) -> None:
    def take(turn: TurnState, project: Project, page: FoundSlotPage) -> bool:
        for slot in page.slots.values():
            slot.end = True
        return bool(original(turn, project, page))

    original = replace(slot_division, "_take", take)


def _no_windows_after_a_start(replace: Replace) -> None:
    def open_(self: SlotTable, low: int, time_low: int) -> None:
        since = self.since
        original(self, low, time_low)
        self.since = since

    original = replace(SlotTable, "open", open_)


def _no_windows_after_a_division(replace: Replace) -> None:
    replace(SlotTable, "begin", lambda self: None)


def _time_floor_stays(replace: Replace) -> None:
    def write_time(self: SlotEntries, entry: int) -> None:
        self.writes.time[entry] = True

    replace(SlotEntries, "write_time", write_time)


def _tolerance_doubled(replace: Replace) -> None:
    def pace_of(*of: Any) -> SlotPace:
        pace: SlotPace = original(*of)
        return pace._replace(tolerance=2 * pace.tolerance)

    original = replace(slots, "pace_of", pace_of)


def _beginning_of_fetches_ignored(replace: Replace) -> None:
    replace(Slot, "began_at", lambda self, start: None)


def _one_too_many(replace: Replace) -> None:
    replace(Slot, "is_full", property(lambda self: self.leases > self.pace.most))


def _below_the_floor_not_wanted(replace: Replace) -> None:
    def note_cold(self: SlotEntries, number: int, entry: int) -> None:
        floor, self.floor = self.floor, 0
        original(self, number, entry)
        self.floor = floor

    original = replace(SlotEntries, "note_cold", note_cold)


def _clock_not_followed(replace: Replace) -> None:
    replace(Slot, "follow_clock", lambda self, clock: False)


MUTANTS: Final = (
    Mutant("the window of a slot that leaves memory is forgotten", _window_forgotten, (DEATHS,)),
    Mutant("a slot that waits in the store is found too late", _late_time_entry, (DEATHS,)),
    Mutant("leases of before a start do not count for their slots", _leases_not_restored, (DEATHS,)),
    Mutant("the best task of a slot improves without a new entry", _better_task_without_entry, (ORDER, DEATHS)),
    Mutant("an old entry is deleted although tasks are left", _rest_not_moved, (DIVISIONS,)),
    Mutant("no slot waits after a start", _no_windows_after_a_start, (DEATHS,)),
    Mutant("no slot waits after a division", _no_windows_after_a_division, (DIVISIONS,)),
    Mutant("a slot that waits in the store is not waited for", _time_floor_stays, (DEATHS,)),
    Mutant("a slot may be early by twice its tolerance", _tolerance_doubled, (ORDER, DEATHS)),
    Mutant("when a fetch began does not matter to its slot", _beginning_of_fetches_ignored, (ORDER,)),
    Mutant("a slot has one task more than its maximum out", _one_too_many, (ORDER, DEATHS)),
    Mutant("a slot that gets a good task is not read", _below_the_floor_not_wanted, (DEATHS,)),
    Mutant("a block ends with the wall clock when its slot leaves memory", _clock_not_followed, (BLOCKS,)),
)
