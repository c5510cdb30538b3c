"""Records of slots, requests to the store about them, and writes of a turn: values without methods.

A *slot* is a part of a project's tasks, such as those of one host, that has a pace of its own. The store has two orders
of a project's slots, whose keys are *entries*, integers that end with the slot's number:

    by best task    priority and seq of a task (96 bits) | number (32 bits)
    by time         milliseconds since 1970 (64 bits) | number (32 bits)

A slot with ready tasks that is not in memory has an entry in at least one of them, which is never late: its best
task is not better, and it may not go on before. So a read of entries in order misses nothing. An entry may be
early, and there may be several; that shows when the slot is read.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from msgspec import Struct, field

from taskqueue.core.model.task import Task
from taskqueue.settings.slots import PLAIN_CHOICE, SlotChoice

NUMBER_BITS: Final = 32
NUMBER_MASK: Final = (1 << NUMBER_BITS) - 1

TIME_BYTES: Final = 12
"""Length of an entry by time."""
LAST_TIME: Final = (1 << 8 * TIME_BYTES) - 1
NO_TIME: Final = b"\xff" * TIME_BYTES
"""Key above every entry by time."""

SlotOrder = Literal["best", "time", "old", "old_time"]
"""The two orders of the slots in force, and those of slots of former divisions."""


class SlotRecord(Struct, array_like=True):
    """Slot as stored; for most slots only the name is set. All times are unix seconds, 0 if unset.

    Attributes:
        next_at: time before which its pace allows no dispatch; stored for windows of more than a minute, and for slots
            that leave memory.
        choice: the operator's choice for it.
        blocked_until: end of a block by the operator or its host.
        level: times in a row that its host has throttled, or could not be reached.
        backoff_at: start of the present back-off.
        backoff_until: end of the present back-off.
        backoff_number: a number above those of the leases that were given before the back-off.
        auto_delay: seconds of the automatic delay, which follows its host's latency; 0 if unknown.
        errors: times ever that its host has throttled, or could not be reached.
        taken: tasks that have been new in it since ``taken_from``, while their number was limited, whatever became of
            them since.
        taken_from: ``DivisionRecord.taken_from`` at the last new task; if that has changed, ``taken`` is 0.
        refused: True if a further one has been rejected since.
    """

    name: str
    next_at: float = 0.0
    choice: SlotChoice = PLAIN_CHOICE
    blocked_until: float = 0.0
    level: int = 0
    backoff_at: float = 0.0
    backoff_until: float = 0.0
    auto_delay: float = 0.0
    errors: int = 0
    backoff_number: int = 0
    taken: int = 0
    taken_from: int = 0
    refused: bool = False


class DivisionRecord(Struct, array_like=True):
    """Division of a project into slots.

    Attributes:
        by: its setting ``slot.by`` when the division began.
        division: number of the first slot of this division; there may be tasks of former ones.
        next_slot: number of the next new slot.
        time_low: lower bound of the entries by time.
        is_moving: True while ready tasks of former divisions are still to be moved.
        taken_from: number that grows when tasks of slots are counted anew: in each division, and by ``clear``.
        is_counting: True if the operator has limited the tasks of one of its slots.
    """

    by: str
    division: int
    next_slot: int
    time_low: bytes = NO_TIME
    is_moving: bool = False
    taken_from: int = 0
    is_counting: bool = False


class SlotName(NamedTuple):
    """Slot by name, with the first number of the division in force; older numbers are of former divisions."""

    project: int
    name: str
    division: int


class SlotRef(NamedTuple):
    """Request for a slot by number, with at most ``limit`` of its ready tasks, from the place ``start`` on.

    The read also ends when URLs and bodies come to ``limit_bytes``, after one task at least.
    """

    project: int
    number: int
    start: int
    limit: int
    limit_bytes: int


class SlotPageRef(NamedTuple):
    """Request for the next slots of an order: at most ``limit`` entries from ``start`` to below ``end``.

    Each slot comes with its record and at most ``tasks`` of its ready tasks, of about ``limit_bytes`` each.
    """

    project: int
    order: SlotOrder
    division: int
    start: int
    end: int
    limit: int
    tasks: int
    limit_bytes: int


class FoundSlot(Struct):
    """Slot as found in the store.

    Attributes:
        record: None if there is none.
        tasks: tasks with specs, in order of their keys.
        end: True if it has no more ready tasks.
    """

    record: SlotRecord | None
    tasks: list[Task]
    end: bool


class FoundSlotPage(Struct):
    """Answer to a SlotPageRef.

    Attributes:
        entries: entries in order.
        divisions: division of each entry.
        slots: slots by number.
        next: the entry after these; None if there is none.
    """

    ref: SlotPageRef
    entries: list[int]
    divisions: list[int]
    slots: dict[int, FoundSlot]
    next: int | None


class SlotWrites(Struct):
    """Changes of a project's slots by a turn.

    Attributes:
        division: first number of the division in force, to which the entries belong.
        best, time: entries; False to delete one.
        old, old_time: entries of former divisions, with the division that each belongs to.
        records: records by number.
        names: numbers by name.
    """

    project: int
    division: int
    best: dict[int, bool] = field(default_factory=dict)
    time: dict[int, bool] = field(default_factory=dict)
    old: dict[tuple[int, int], bool] = field(default_factory=dict)
    old_time: dict[tuple[int, int], bool] = field(default_factory=dict)
    records: dict[int, SlotRecord] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
