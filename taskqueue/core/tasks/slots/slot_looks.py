"""What people ask of the store about slots, and the answers: values without methods. The turns of tasks ask otherwise,
see ``slot_records``: what is looked up here changes nothing.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec import Struct

from taskqueue.core.tasks.slots.slot_records import SlotRecord
from taskqueue.core.tasks.task import Task


class SlotLook(NamedTuple):
    """One slot: by its number, else by its name, else that in which a ready task is.

    Attributes:
        number, name, taskid: two of them say nothing.
        count_most: ready tasks that are counted.
        tasks_most: next ready tasks that are read.
    """

    project: int
    number: int
    name: str
    taskid: str
    count_most: int
    tasks_most: int


class FoundLook(Struct):
    """Answer to a SlotLook.

    Attributes:
        number: 0: there is none.
        ready: its ready tasks, as far as they were counted; ``more``: there are more.
        tasks: the next ones, with specs.
    """

    number: int
    record: SlotRecord | None
    ready: int
    more: bool
    tasks: list[Task]


class SlotTallyRef(NamedTuple):
    """Ready tasks from the place ``start`` on, counted by slot; ``limit`` at most."""

    project: int
    start: int
    limit: int


class FoundTally(NamedTuple):
    """Answer to a SlotTallyRef: numbers of slots, with how many tasks each has here, and the place after the last one;
    None: there are no more.
    """

    counts: list[tuple[int, int]]
    next: int | None


class SlotRecordsRef(NamedTuple):
    """Slots from the number ``start`` on; ``limit`` at most."""

    project: int
    start: int
    limit: int


class FoundSlotRecords(NamedTuple):
    """Answer to a SlotRecordsRef: records by number, and the number after the last one; None: there are no more."""

    records: dict[int, SlotRecord]
    next: int | None


SlotQuestion = SlotLook | SlotTallyRef | SlotRecordsRef


class SlotAnswers(Struct, frozen=True):
    """Answers by their questions."""

    looks: dict[SlotLook, FoundLook] = {}
    tallies: dict[SlotTallyRef, FoundTally] = {}
    records: dict[SlotRecordsRef, FoundSlotRecords] = {}


NO_ANSWERS: Final = SlotAnswers()
