"""The memory of this process, and of its machine or container. Linux only; elsewhere nothing is known.

Large blocks are mapped apart from the heap, so that each is returned to the system with its message; the rest is
returned when the heap is trimmed. By default glibc raises the mmap threshold up to 32 MiB as blocks are freed, and a
fragmented heap was half as large again as its content.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from typing import Final

MMAP_THRESHOLD_BYTES: Final = 4 << 20
"""Blocks from this size on are mapped; with 512 KiB a message of that length cost ten times as much to send."""
TRIM_THRESHOLD_BYTES: Final = 128 << 20
"""Free bytes at the end of the heap that trigger a trim; with glibc's 128 KiB that happens with every message."""
M_MMAP_THRESHOLD: Final = -3
M_TRIM_THRESHOLD: Final = -1
"""Parameters of mallopt(3)."""

CGROUP_FILES: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


class ProcessMemory:
    """Memory of this process."""

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
        """Resident bytes; 0: unknown."""
        return int(os.pread(self._statm, 128, 0).split()[1]) * self._page if self._statm >= 0 else 0

    def trim(self) -> None:
        """Return unused heap to the system; takes milliseconds."""
        with suppress(AttributeError):
            self._libc.malloc_trim(0)

    def close(self) -> None:
        """Close its file."""
        if self._statm >= 0:
            os.close(self._statm)
            self._statm = -1


def resident_bytes() -> int:
    """Resident bytes of this process; 0: unknown."""
    with suppress(OSError), open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def machine_bytes() -> int:
    """Memory of the machine, or of the container if that may use less."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in CGROUP_FILES:
        with suppress(OSError, ValueError), open(name, encoding="ascii") as file:
            found.append(int(file.read()))
    return min(found)
