"""Watch of one file by inotify(7), without polling: a descriptor that is readable when the file may have changed.

The folder is watched, because writers replace the file as a whole, and so is the folder of the file that a link leads
to.
"""

from __future__ import annotations

import ctypes
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

log = logging.getLogger("taskqueue")

ATTRIB: Final = 0x4
CLOSE_WRITE: Final = 0x8
MOVED_FROM: Final = 0x40
MOVED_TO: Final = 0x80
DELETE: Final = 0x200
EVENTS: Final = ATTRIB | CLOSE_WRITE | MOVED_FROM | MOVED_TO | DELETE
"""Not IN_CREATE: a file that was just created is still to be written."""

READ_BYTES: Final = 1 << 16

_libc: Final = ctypes.CDLL(None, use_errno=True)


class FileWatch:
    """Watch that lasts until ``close``; without inotify it logs that, and never reports a change."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._seen = self._look()
        self._watch()

    def fileno(self) -> int:
        """Return the descriptor that is readable after something happened in the folder; negative without inotify."""
        return int(self._fd)

    def has_changed(self) -> bool:
        """Whether the file is another one since the last call, or since the start."""
        if self._fd >= 0:
            with suppress(BlockingIOError):
                while os.read(self._fd, READ_BYTES):
                    pass
        before, self._seen = self._seen, self._look()
        if before == self._seen:
            return False
        self._watch()
        return True

    def close(self) -> None:
        """Stop watching."""
        if self._fd >= 0:
            os.close(self._fd)

    def _watch(self) -> None:
        """Watch the folders of the file as it is now; watching one twice changes nothing."""
        for folder in {self._path.parent, self._path.resolve().parent}:
            if _libc.inotify_add_watch(self._fd, os.fsencode(folder), EVENTS) < 0:
                reason = os.strerror(ctypes.get_errno())
                log.warning("file-unwatched folder=%s error=%r; SIGHUP has the daemon read it", folder, reason)

    def _look(self) -> tuple[int, ...]:
        """Facts that change if the file is replaced, written, or given other rights."""
        try:
            found = os.stat(self._path)
        except OSError:
            return ()
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_mode
