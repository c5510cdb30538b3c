"""Growing pauses between attempts to begin again after the store failed."""

from __future__ import annotations

from typing import Final

FIRST_SECONDS: Final = 0.1
LONGEST_SECONDS: Final = 5.0


class Backoff:
    """Doubles from FIRST_SECONDS to LONGEST_SECONDS, until something worked again."""

    def __init__(self) -> None:
        self._seconds = FIRST_SECONDS

    def next(self) -> float:
        """Seconds to wait before this attempt; the one after it waits longer."""
        seconds = self._seconds
        self._seconds = min(2 * seconds, LONGEST_SECONDS)
        return seconds

    def reset(self) -> None:
        """It worked: the next failure is the first again."""
        self._seconds = FIRST_SECONDS
