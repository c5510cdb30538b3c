"""Whether the disk of the store has room, so that the daemon can stop taking tasks before it can't write any more.

    room ──less than min_free is free──► nearly full ──a tenth more than that is free──► room

Rules:
1. It is looked at in turns, at most each LOOK_SECONDS, so that an idle daemon doesn't look.
2. A disk that is nearly full is looked at by itself, each FULL_LOOK_SECONDS: nothing tells when there is room again.
3. A disk that can't be looked at is taken to have room; the store says soon enough if it has not.
"""

from __future__ import annotations

import logging
import os
from math import inf
from typing import Final

log = logging.getLogger("taskqueue")

LOOK_SECONDS: Final = 1.0
FULL_LOOK_SECONDS: Final = 5.0
SLACK: Final = 1.1


class DiskSpace:
    """The one that a folder lies on.

    Attributes:
        has_room: they were, when it was last looked at.
    """

    def __init__(self, path: str, min_free: int) -> None:
        self._path = path
        self._looked_at = -inf
        self._min_free = min_free
        self.has_room = True

    @property
    def due_at(self) -> float:
        """When it must be looked at even if nothing happens (boot-clock seconds); inf: never."""
        return inf if self.has_room else self._looked_at + FULL_LOOK_SECONDS

    def use(self, min_free: int) -> None:
        """So many bytes are to stay free from now on."""
        self._min_free = min_free
        self._looked_at = -inf

    def look(self, now_boot: float) -> bool:
        """See whether there is room, if that was not done just now; True: that has changed."""
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
