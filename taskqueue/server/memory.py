"""The memory of this process, and of the machine that it runs on; Linux, elsewhere nothing is known.

What messages leave behind in the heap goes back to the system when that is trimmed. To map large blocks apart, so that
each goes back with its message (M_MMAP_THRESHOLD of mallopt(3)), would cost ten times as much for each message of more
than 400 kB.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from typing import Final

CGROUP_FILES: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


class Memory:
    """Of this process."""

    def __init__(self) -> None:
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._statm = -1
        with suppress(OSError):
            self._statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        self._libc = ctypes.CDLL(None)

    def resident(self) -> int:
        """Bytes of it that are in the machine's memory; 0: unknown."""
        return int(os.pread(self._statm, 128, 0).split()[1]) * self._page if self._statm >= 0 else 0

    def trim(self) -> None:
        """Give what the heap doesn't use back to the system; takes milliseconds."""
        with suppress(AttributeError):
            self._libc.malloc_trim(0)

    def close(self) -> None:
        """Let go of what was open."""
        if self._statm >= 0:
            os.close(self._statm)
            self._statm = -1


def machine_bytes() -> int:
    """What the machine has, or the container, if that may have less."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in CGROUP_FILES:
        with suppress(OSError, ValueError), open(name, encoding="ascii") as file:
            found.append(int(file.read()))
    return min(found)
