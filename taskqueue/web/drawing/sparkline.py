"""A line as small as a word (E. Tufte, "Beautiful Evidence", 2006): how a number went, without axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

WIDTH: Final = 96
HEIGHT: Final = 22
EDGE: Final = 2
"""Above the highest point and below the lowest one."""


def points(numbers: Sequence[float]) -> str:
    """The points of a polyline, from left to right, the highest number at the top and 0 at the bottom."""
    if len(numbers) < 2:
        return ""
    most = max(numbers) or 1.0
    step = WIDTH / (len(numbers) - 1)
    room = HEIGHT - 2 * EDGE
    return " ".join(
        f"{place * step:.1f},{HEIGHT - EDGE - number / most * room:.1f}" for place, number in enumerate(numbers)
    )
