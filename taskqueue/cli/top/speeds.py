"""How fast projects go, by totals that are looked at now and then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from taskqueue.protocol.views import Totals

SHORTEST_SECONDS: Final = 0.5
"""Between two looks that tell a speed; what is looked at more often keeps the speed that it had."""

LOOKED_AT_MOST: Final = 1000
"""Projects that are remembered besides those of the last look."""


class Speeds(msgspec.Struct, frozen=True):
    """Tasks per second."""

    new: float
    selected: float
    success: float
    retried: float
    failed: float


class Look(NamedTuple):
    """When something was looked at (seconds of any clock), how its totals stood then, and how fast it went before."""

    at: float
    totals: Totals
    speeds: Speeds | None


class Watch:
    """Remembers the last looks, by name."""

    def __init__(self) -> None:
        self._looks: dict[str, Look] = {}

    def look(self, at: float, totals: Mapping[str, Totals]) -> dict[str, Speeds]:
        """Speeds since each was looked at before; those that are seen for the first time have none."""
        seen = {name: _look(self._looks.get(name), at, now) for name, now in totals.items()}
        self._looks = ({} if len(self._looks) > LOOKED_AT_MOST else self._looks) | seen
        return {name: look.speeds for name, look in seen.items() if look.speeds is not None}


def _look(before: Look | None, at: float, totals: Totals) -> Look:
    if before is None:
        return Look(at, totals, None)
    if at - before.at < SHORTEST_SECONDS:
        return before
    # Totals shrink when a project is deleted and made again; that is no speed.
    gained = (max(0, getattr(totals, name) - getattr(before.totals, name)) for name in Speeds.__struct_fields__)
    return Look(at, totals, Speeds(*(count / (at - before.at) for count in gained)))
