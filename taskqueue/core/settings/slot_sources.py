"""Who says each number of the pace of a slot, for people; what the numbers are is told in ``slot_pace``."""

from __future__ import annotations

from collections.abc import Callable

from taskqueue.core.settings.settings import Settings
from taskqueue.core.settings.slot_choice import PLAIN_CHOICE, SlotChoice
from taskqueue.core.settings.slot_pace import fitting_pattern


def sources_of(settings: Settings, name: str, chosen: SlotChoice) -> dict[str, str]:
    """By number: ``person``, the pattern that says it, or ``project``; without a name there is no pace.

    Args:
        chosen: what a person set for this slot.
    """
    if not name:
        return {}
    pattern = fitting_pattern(settings.slots, name)
    fitting = settings.slots.get(pattern, PLAIN_CHOICE)

    def source(says: Callable[[SlotChoice], bool]) -> str:
        return "person" if says(chosen) else pattern if says(fitting) else "project"

    return {
        "delay": source(lambda choice: choice.delay is not None or choice.rate is not None),
        "burst": source(lambda choice: choice.burst is not None),
        "max_processing": source(lambda choice: choice.max_processing is not None),
        "max_tasks": source(lambda choice: choice.max_tasks is not None),
    }
