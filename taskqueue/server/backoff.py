"""Exponential backoff between attempts to reopen a failed store."""

from __future__ import annotations

from typing import Final

FIRST_SECONDS: Final = 0.1
LONGEST_SECONDS: Final = 5.0


class Backoff:
    """Pauses that double from FIRST_SECONDS to LONGEST_SECONDS until ``reset``."""

    def __init__(self) -> None:
        self._seconds = FIRST_SECONDS

    def next(self) -> float:
        """Seconds to wait before this attempt; doubles for the next one."""
        seconds = self._seconds
        self._seconds = min(2 * seconds, LONGEST_SECONDS)
        return seconds

    def reset(self) -> None:
        """An attempt succeeded: start from FIRST_SECONDS again."""
        self._seconds = FIRST_SECONDS
