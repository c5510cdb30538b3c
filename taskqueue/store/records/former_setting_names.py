"""Names of overrides in stores up to format 7 and exports up to version 5, and their present names.

    slot           ──► slot.by          keep_success, …         ──► keep.success, …
    slot_delay, …  ──► slot.delay, …    forget = false, true    ──► keep.then = remember, forget
    slots          ──► slot.patterns    all others              ──► as they are

Values stay as they are; the daemon and an import check them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from taskqueue.protocol.fields import Setting

OF_SLOT: Final = {
    "slot": "by",
    "slot_delay": "delay",
    "slot_min_delay": "min_delay",
    "slot_max_delay": "max_delay",
    "slot_rate": "rate",
    "slot_burst": "burst",
    "slot_max_processing": "max_processing",
    "slot_max_tasks": "max_tasks",
    "slots": "patterns",
}
OF_KEEP: Final = {"keep_success": "success", "keep_failed": "failed", "keep_cancelled": "cancelled"}
FORGET: Final = "forget"


def renamed(overrides: Mapping[str, Setting]) -> dict[str, Setting]:
    """Rename overrides to their present names; overrides with present names stay unchanged."""
    if isinstance(overrides.get("slot"), dict):
        return dict(overrides)
    slot = {OF_SLOT[name]: value for name, value in overrides.items() if name in OF_SLOT}
    keep = {OF_KEEP[name]: value for name, value in overrides.items() if name in OF_KEEP}
    if FORGET in overrides:
        keep["then"] = "forget" if overrides[FORGET] else "remember"
    moved = {*OF_SLOT, *OF_KEEP, FORGET}
    kept = {name: value for name, value in overrides.items() if name not in moved}
    return kept | ({"slot": slot} if slot else {}) | ({"keep": keep} if keep else {})
