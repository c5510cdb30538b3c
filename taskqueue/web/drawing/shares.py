"""A bar whose parts are as wide as what they stand for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Share(NamedTuple):
    """A part of a bar."""

    name: str
    x: float
    width: float


def shares(parts: Iterable[tuple[str, float]], whole: float, width: float = 100.0) -> list[Share]:
    """The parts side by side, of a bar of so much width that stands for the whole; what is 0 has none."""
    found, x = list[Share](), 0.0
    for name, count in parts:
        if count > 0 and whole > 0:
            found.append(Share(name, round(x, 2), round(count / whole * width, 2)))
            x += count / whole * width
    return found
