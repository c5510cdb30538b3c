"""Speeds of counters, of the last seconds in which somebody looked."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

WINDOW_SECONDS: Final = 10.0
"""A speed is that of so many seconds, at most."""

FORGOTTEN_SECONDS: Final = 30.0
"""A counter that nobody has looked at for so long begins anew."""

LOOKED_AT_MOST: Final = 10_000
"""Counters that are remembered."""


class Meters:
    """Remembers what counters said, by name."""

    def __init__(self) -> None:
        self._looks: dict[str, deque[tuple[float, float]]] = {}

    def look(self, at: float, counters: Mapping[str, float]) -> dict[str, float]:
        """Speeds a second, ``at`` seconds of any clock; a counter that is new, or has begun anew, has none yet."""
        if len(self._looks) > LOOKED_AT_MOST:
            self._looks.clear()
        found = {name: self._speed(name, at, count) for name, count in counters.items()}
        return {name: speed for name, speed in found.items() if speed is not None}

    def _speed(self, name: str, at: float, count: float) -> float | None:
        looks = self._looks.setdefault(name, deque())
        if looks and (count < looks[-1][1] or at - looks[-1][0] > FORGOTTEN_SECONDS):
            looks.clear()
        while len(looks) > 1 and at - looks[1][0] >= WINDOW_SECONDS:
            looks.popleft()
        if not looks or at - looks[-1][0] >= 0.5:
            looks.append((at, count))
        since, first = looks[0]
        return (count - first) / (at - since) if at > since else None
