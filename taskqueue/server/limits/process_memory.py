"""The memory of this process, and of the machine that it runs on; Linux, elsewhere nothing is known.

Large blocks are mapped apart from the heap, so that each goes back to the system with its message; what others leave
behind goes back when the heap is trimmed. Unless it is told so, glibc moves the threshold up to 32 MiB as blocks are
freed, and a heap full of holes was half as large again as what was in it.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from typing import Final

MMAP_THRESHOLD_BYTES: Final = 4 << 20
"""Blocks at least so long are mapped; with 512 KiB a message of that length cost ten times as much to send."""
TRIM_THRESHOLD_BYTES: Final = 128 << 20
"""Free at the end of the heap, before it is trimmed by itself; with glibc's 128 KiB that happens with every message."""
M_MMAP_THRESHOLD: Final = -3
M_TRIM_THRESHOLD: Final = -1
"""Of mallopt(3)."""

CGROUP_FILES: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


class ProcessMemory:
    """Of this process."""

    def __init__(self) -> None:
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._statm = -1
        with suppress(OSError):
            self._statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        self._libc = ctypes.CDLL(None)
        with suppress(AttributeError):
            self._libc.mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)
            self._libc.mallopt(M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES)

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
