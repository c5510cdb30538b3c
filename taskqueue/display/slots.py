"""What is told of a slot, a column for each thing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from taskqueue.display.columns import ListColumn
from taskqueue.protocol.slots import Slot
from taskqueue.units import duration_text

NAMELESS: Final = "(no host)"
"""The slot of the tasks that nothing tells apart."""


def name_of(slot: Slot) -> str:
    """Its name, or what it is called if it has none."""
    return slot.name or NAMELESS


def ready(slot: Slot) -> str:
    """``1,200+``: its ready tasks, and whether the store has more."""
    return f"{slot.ready:,}{'+' if slot.more else ''}"


def tasks_so_far(slot: Slot) -> str:
    """How many tasks have been new in it, of how many."""
    return f"{slot.taken:,}" if slot.max_tasks is None else f"{slot.taken:,} of {slot.max_tasks:,.0f}"


def delay(slot: Slot) -> str:
    """``0.123 s``, ``1 min 15 s (auto)``: from one hand-out to the next."""
    seconds = f"{slot.delay:.3g} s" if slot.delay < 10 else duration_text(slot.delay)
    return f"{seconds} (auto)" if slot.auto else seconds


COLUMNS: Final[tuple[ListColumn[Slot], ...]] = (
    ListColumn("slot", name_of, words=True),
    ListColumn("place", lambda slot: slot.place, words=True),
    ListColumn("ready", ready),
    ListColumn("processing", lambda slot: f"{slot.processing:,}"),
    ListColumn("errors", lambda slot: f"{slot.errors:,}"),
    ListColumn("delay", delay),
    ListColumn("tasks", tasks_so_far),
)


def columns_of(slots: Iterable[Slot]) -> Sequence[ListColumn[Slot]]:
    """COLUMNS; without the last if the number of tasks is limited for none of the slots."""
    return COLUMNS if any(slot.max_tasks is not None for slot in slots) else COLUMNS[:-1]
