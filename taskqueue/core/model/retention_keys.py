"""Arithmetic of retention: keys of finished tasks that are past it, and when the first one will be.

The order of a finished state begins with the task that ended first. ``low`` is a lower bound of its keys: with its
time and the project's retention, the core knows without a look-up when there is something to look up.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, inf
from typing import Final

from taskqueue.core.model.records import ProjectRecord
from taskqueue.core.model.task import KEY_BYTES, NO_FLOOR, OVER, SEQ_BITS, STATE_NAMES, key_time
from taskqueue.protocol.fields import Wall
from taskqueue.settings.settings import Settings

NO_ENTRY: Final = NO_FLOOR - 1
"""Lower bound of an empty order; above every key of a task."""

LATE_PART: Final = 0.1
LATE_AT_LEAST: Final = 1.0
LATE_AT_MOST: Final = 60.0
"""Bounds of the seconds that expired tasks may stay, a tenth of the retention, so that many are dropped in one turn."""


def keeps_of(settings: Settings) -> tuple[float, ...]:
    """Return the retention in seconds of success, failed and cancelled; empty to keep them for ever."""
    keep = settings.keep
    keeps = keep.success, keep.failed, keep.cancelled
    return () if all(each == inf for each in keeps) else keeps


def old_below(keep: float, now: Wall) -> int:
    """Return the key below which tasks are past a retention of ``keep`` seconds; ``now`` in unix seconds."""
    return 0 if keep > now else (floor((now - keep) * 1e6) + 1) << SEQ_BITS


def old_at(low: int, keep: float) -> float:
    """Return when to look for tasks past their retention (unix seconds); inf if never."""
    if low == NO_ENTRY:
        return inf
    return key_time(low) + keep + min(max(keep * LATE_PART, LATE_AT_LEAST), LATE_AT_MOST)


def lows_of(record: ProjectRecord) -> list[int]:
    """Return lower bounds by state, as stored; NO_ENTRY for a state without known tasks."""
    lows = [NO_ENTRY] * len(STATE_NAMES)
    for place, state in enumerate(OVER):
        if getattr(record.counts, STATE_NAMES[state]):
            lows[state] = int.from_bytes(record.over_low[place * KEY_BYTES : (place + 1) * KEY_BYTES], "big")
    return lows


def packed_lows(lows: Sequence[int]) -> bytes:
    """Pack lower bounds for the store."""
    packed = 0  # packing one number takes a quarter of the time of three
    for state in OVER:
        packed = packed << 8 * KEY_BYTES | lows[state]
    return packed.to_bytes(len(OVER) * KEY_BYTES, "big")
