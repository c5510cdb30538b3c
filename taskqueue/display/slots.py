"""Columns and words for slots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from taskqueue.display.columns import ListColumn
from taskqueue.protocol.slots import Slot
from taskqueue.texts.units import duration_text

NAMELESS: Final = "(no host)"
"""Name shown for the slot of tasks that have no host or name."""


def name_of(slot: Slot) -> str:
    """Return the name of a slot, or the one shown if it has none."""
    return slot.name or NAMELESS


def ready(slot: Slot) -> str:
    """Format ready tasks, with a + if the store has more: ``1,200+``."""
    return f"{slot.ready:,}{'+' if slot.more else ''}"


def tasks_so_far(slot: Slot) -> str:
    """Format the number of new tasks so far, and the maximum if there is one."""
    return f"{slot.taken:,}" if slot.max_tasks is None else f"{slot.taken:,} of {slot.max_tasks:,.0f}"


def delay(slot: Slot) -> str:
    """Format the time between two dispatches: ``0.123 s``, ``1 min 15 s (auto)``."""
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
    """Return the columns for these slots; the last one only if the number of tasks is limited for one of them."""
    return COLUMNS if any(slot.max_tasks is not None for slot in slots) else COLUMNS[:-1]
