"""Slots as the store keeps them, what is asked of it about them, and what a turn writes: values without methods.

A *slot* is a part of a project's tasks, such as those of one host, that has a pace of its own. The store has two orders
of a project's slots, whose keys are *entries*, integers that end with the slot's number:

    by best task    priority and seq of a task (96 bits) | number (32 bits)
    by time         milliseconds since 1970 (64 bits) | number (32 bits)

A slot with ready tasks that is not in memory has an entry in at least one of them, and that is never late: its best
task is not better, and it may not go on before. So whoever reads entries in order misses nothing. An entry may be
early, and there may be several; that shows when it is read.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from msgspec import Struct, field

from taskqueue.core.model.task import Task
from taskqueue.settings.slot_choice import PLAIN_CHOICE, SlotChoice

NUMBER_BITS: Final = 32
NUMBER_MASK: Final = (1 << NUMBER_BITS) - 1

TIME_BYTES: Final = 12
"""Of an entry by time."""
LAST_TIME: Final = (1 << 8 * TIME_BYTES) - 1
NO_TIME: Final = b"\xff" * TIME_BYTES
"""Above every entry by time."""

SlotOrder = Literal["best", "time", "old", "old_time"]
"""The two orders of the slots in force, and those of slots of former divisions."""


class SlotRecord(Struct, array_like=True):
    """A slot as the store keeps it; of most only the name says anything. All times are unix seconds, 0: none.

    Attributes:
        next_at: before which nothing may be handed out by its pace; kept of windows of more than a minute, and of slots
            that leave memory.
        choice: what a person has chosen for it.
        blocked_until: it is blocked, by a person or by its host.
        level: how often its host has asked for a pause, or could not be reached, in a row.
        backoff_at: when the present back-off began.
        backoff_until: when it ends.
        backoff_number: above those of the leases that were given before it.
        auto_delay: seconds, as they follow from its host's latency; 0: nothing is known.
        errors: how often its host has asked for a pause, or could not be reached, ever.
        taken: tasks that have been new in it since ``taken_from``, while the number of them was limited; what became of
            them since does not matter.
        taken_from: ``DivisionRecord.taken_from`` when the last one was; if that is another now, ``taken`` is 0.
        refused: a further one has been rejected since.
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
    """How a project is divided into slots.

    Attributes:
        by: its setting ``slot.by`` when it was divided so.
        division: number of the first slot of this division; there may be tasks of former ones.
        next_slot: number of the next new slot.
        time_low: a lower bound of the entries by time.
        is_moving: ready tasks of former divisions are still to be moved.
        taken_from: number that grows when tasks of slots are counted anew: in each division, and by ``clear``.
        is_counting: a person has limited the tasks of one of its slots.
    """

    by: str
    division: int
    next_slot: int
    time_low: bytes = NO_TIME
    is_moving: bool = False
    taken_from: int = 0
    is_counting: bool = False


class SlotName(NamedTuple):
    """A slot by its name. ``division``: first number of the division in force; older numbers are of former ones."""

    project: int
    name: str
    division: int


class SlotRef(NamedTuple):
    """A slot by its number, with at most ``limit`` of its ready tasks, from the place ``start`` on.

    The read also ends when urls and bodies come to ``limit_bytes``, but not before the first task.
    """

    project: int
    number: int
    start: int
    limit: int
    limit_bytes: int


class SlotPageRef(NamedTuple):
    """The next slots of an order: at most ``limit`` entries from ``start`` to below ``end``.

    Each with its record and at most ``tasks`` of its ready tasks, of ``limit_bytes`` each about.
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
    """A slot as the store has it.

    Attributes:
        record: None: there is none.
        tasks: with specs, in the order of their keys.
        end: it has no further ready ones.
    """

    record: SlotRecord | None
    tasks: list[Task]
    end: bool


class FoundSlotPage(Struct):
    """Answer to a SlotPageRef.

    Attributes:
        entries: in their order.
        divisions: which one each entry belongs to.
        slots: by number.
        next: the entry after these; None: there is none.
    """

    ref: SlotPageRef
    entries: list[int]
    divisions: list[int]
    slots: dict[int, FoundSlot]
    next: int | None


class SlotWrites(Struct):
    """What a turn changes of a project's slots.

    Attributes:
        division: first number of the division in force, to which the entries belong.
        best, time: entries; False: to be deleted.
        old, old_time: entries of former divisions, with the division that each belongs to.
        records: by number.
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
