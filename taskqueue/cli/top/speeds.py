"""Speeds of projects, computed from totals that are sampled now and then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from taskqueue.protocol.values import Totals

SHORTEST_SECONDS: Final = 0.5
"""Between two samples that give a new speed; with more frequent samples the speed stays."""

LOOKED_AT_MOST: Final = 1000
"""Projects that are remembered besides those of the last sample."""


class Speeds(msgspec.Struct, frozen=True):
    """Tasks per second."""

    new: float
    selected: float
    success: float
    retried: float
    failed: float


class Sample(NamedTuple):
    """Totals at a time (seconds of any clock), and the speeds up to it."""

    at: float
    totals: Totals
    speeds: Speeds | None


class SpeedMeter:
    """Remembers the last sample of each project."""

    def __init__(self) -> None:
        self._looks: dict[str, Sample] = {}

    def look(self, at: float, totals: Mapping[str, Totals]) -> dict[str, Speeds]:
        """Speeds since each project's last sample; a project that is new has none."""
        seen = {name: _next_sample(self._looks.get(name), at, now) for name, now in totals.items()}
        self._looks = ({} if len(self._looks) > LOOKED_AT_MOST else self._looks) | seen
        return {name: look.speeds for name, look in seen.items() if look.speeds is not None}


def _next_sample(before: Sample | None, at: float, totals: Totals) -> Sample:
    if before is None:
        return Sample(at, totals, None)
    if at - before.at < SHORTEST_SECONDS:
        return before
    # Totals shrink when a project is deleted and made again; that is no speed.
    gained = (max(0, getattr(totals, name) - getattr(before.totals, name)) for name in Speeds.__struct_fields__)
    return Sample(at, totals, Speeds(*(count / (at - before.at) for count in gained)))
