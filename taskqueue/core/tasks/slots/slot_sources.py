"""Which numbers make the pace of a slot, and who says each, for people; what follows from them is in ``slot_pace``."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from taskqueue.core.tasks.slots.slot_pace import fitting_choice, fitting_pattern
from taskqueue.protocol.fields import Setting
from taskqueue.settings.settings import Settings
from taskqueue.settings.slot_choice import PLAIN_CHOICE, SlotChoice


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


def pace_in_force(settings: Settings, name: str, chosen: SlotChoice) -> dict[str, Setting]:
    """Each number that holds for the slot of that name, whoever says it; of delay and rate the one that counts.

    Args:
        chosen: what a person set for this slot.
    """
    own = SlotChoice(
        settings.slot_delay,
        settings.slot_rate if settings.slot_rate != inf else None,
        settings.slot_burst,
        settings.slot_max_processing,
        settings.slot_max_tasks,
    )
    said = (chosen, fitting_choice(settings.slots, name), own)
    delay, rate = next((each.delay, each.rate) for each in said if each.delay is not None or each.rate is not None)
    whole = {
        field: next((value for each in said if (value := getattr(each, field)) is not None), None)
        for field in ("burst", "max_processing", "max_tasks")
    }
    return {"delay": delay if rate is None else None, "rate": rate, **whole}
