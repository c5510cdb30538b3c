"""What is told of a project: the words of its states, its columns and its pace."""

from __future__ import annotations

from typing import Final

from taskqueue.units import duration_text

EVENTS: Final = ("success", "retried", "failed")
"""How attempts end, in the order in which they are drawn."""

WINDOWS: Final = (("5m", "minutes"), ("1h", "hour"), ("1d", "day"))
"""Times before now in which events are counted: as they are called, and as a view has them."""

ALL: Final = "all"
"""All events since the project was made."""


def pace_text(number: float) -> str:
    """A rate or a burst as people write it: ``5``, ``0.25``, ``inf``."""
    return f"{number:g}" if abs(number) < 1e6 or number in (float("inf"), float("-inf")) else f"{number:.0f}"


def took_text(seconds: float) -> str:
    """How long attempts took: ``48 ms``, ``1.2 s``, ``4 min 10 s``."""
    return duration_text(seconds) if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def events_text(success: int, retried: int, failed: int) -> str:
    """``1,204 success, 3 retried, 1 failed``."""
    return ", ".join(f"{count:,} {name}" for name, count in zip(EVENTS, (success, retried, failed), strict=True))
