"""Pauses between attempts to use a failed store again."""

from __future__ import annotations

from math import inf
from typing import Final

FIRST_SECONDS: Final = 0.25
LATER_SECONDS: Final = 1.0
"""Clients stand still until the store is found to be usable again, and most troubles end within the first minute."""

HASTE_SECONDS: Final = 60.0
"""Age of a trouble from which on the store is tried each LATER_SECONDS; peace after which another one begins."""


class Backoff:
    """Pauses of one trouble: none before the first attempt, then FIRST_SECONDS each, from HASTE_SECONDS on
    LATER_SECONDS each. It ends by ``reset``, or if nothing is tried for HASTE_SECONDS.
    """

    def __init__(self) -> None:
        self._began_at = self._tried_at = -inf

    def next(self, now: float) -> float:
        """Seconds to wait before the next attempt; ``now`` is in seconds of any one clock that never steps."""
        is_new = now >= self._tried_at + HASTE_SECONDS
        if is_new:
            self._began_at = now
        pause = 0.0 if is_new else FIRST_SECONDS if now < self._began_at + HASTE_SECONDS else LATER_SECONDS
        self._tried_at = now + pause
        return pause

    def reset(self) -> None:
        """The trouble is over."""
        self._tried_at = -inf
