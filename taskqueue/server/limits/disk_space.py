"""Whether the store's disk has space, so that the daemon can stop accepting tasks before writes fail.

    has space ──less than min_free is free──► nearly full ──SLACK × min_free is free──► has space

Rules:
1. It is checked in turns, at most every LOOK_SECONDS, so that an idle daemon doesn't check.
2. A disk that is nearly full is checked every FULL_LOOK_SECONDS: nothing notifies when space is freed.
3. A disk that can't be checked is taken to have space; the store notices soon enough if it has not.
"""

from __future__ import annotations

import logging
import os
from math import inf
from typing import Final

log = logging.getLogger("taskqueue")

LOOK_SECONDS: Final = 0.05
"""A check takes two microseconds. With one a second, a client that pushes as fast as it can had 180 MB written below
``min_free`` before the check that noticed.
"""
FULL_LOOK_SECONDS: Final = 5.0
SLACK: Final = 1.1


class DiskSpace:
    """Free space of the disk of a folder; with an empty path of one that can't be checked, such as a database's.

    Attributes:
        has_room: at least min_free bytes were free at the last check.
    """

    def __init__(self, path: str, min_free: int) -> None:
        self._path = path
        self._looked_at = -inf
        self._min_free = min_free
        self.has_room = True

    @property
    def due_at(self) -> float:
        """Boot-clock seconds at which it must be checked even if nothing happens; inf: never."""
        return inf if self.has_room else self._looked_at + FULL_LOOK_SECONDS

    def use(self, min_free: int) -> None:
        """Change ``min_free``, in bytes."""
        self._min_free = min_free
        self._looked_at = -inf

    def free_bytes(self) -> int | None:
        """How much is free now; None: that can't be seen."""
        free = _free_bytes(self._path)
        return None if free == inf else int(free)

    def look(self, now_boot: float) -> bool:
        """Check, unless that was done within LOOK_SECONDS; True: ``has_room`` has changed."""
        if now_boot < self._looked_at + LOOK_SECONDS:
            return False
        self._looked_at = now_boot
        free = _free_bytes(self._path)
        had_room = self.has_room
        self.has_room = free >= (self._min_free if had_room else SLACK * self._min_free)
        if self.has_room == had_room:
            return False
        if self.has_room:
            log.warning("disk-has-room free=%d; tasks are taken and handed out again", free)
        else:
            log.error("disk-nearly-full free=%d min_free=%d; no tasks are taken or handed out", free, self._min_free)
        return True


def _free_bytes(path: str) -> float:
    try:
        found = os.statvfs(path)
    except OSError:
        return inf
    return found.f_bavail * found.f_frsize
