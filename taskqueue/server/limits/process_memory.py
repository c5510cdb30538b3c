"""The memory of this process, and of its machine or container. Linux only; elsewhere nothing is known.

Large blocks are mapped apart from the heap, so that each is returned to the system with its message; the rest is
returned when the heap is trimmed. By default glibc raises the mmap threshold up to 32 MiB as blocks are freed, and a
fragmented heap was half as large again as its content.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Final

MMAP_THRESHOLD_BYTES: Final = 4 << 20
"""Blocks from this size on are mapped; with 512 KiB a message of that length cost ten times as much to send."""
TRIM_THRESHOLD_BYTES: Final = 128 << 20
"""Free bytes at the end of the heap that trigger a trim; with glibc's 128 KiB that happens with every message."""
M_MMAP_THRESHOLD: Final = -3
M_TRIM_THRESHOLD: Final = -1
"""Parameters of mallopt(3)."""

GROUP_LIMITS: Final = {
    "": ("sys/fs/cgroup", "memory.max"),
    "memory": ("sys/fs/cgroup/memory", "memory.limit_in_bytes"),
}
"""Where the groups of a controller lie, and the file that has a group's limit: of version 2 (no controller is named)
and of version 1 (cgroups(7), cgroup-v2 and memory in the kernel's documentation)."""
UNLIMITED_BYTES: Final = 1 << 60
"""Version 1 says 2^63 less a page of a group without a limit."""


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


def machine_bytes() -> int:
    """Memory of the machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def group_bytes(root: str = "/") -> int | None:
    """Memory that the control groups of this process may use: the smallest limit on the path from its own group up.

    A service manager sets it (``MemoryMax=``), or a container, for itself or for a group around it.

    Args:
        root: where ``/proc`` and ``/sys`` lie.

    Returns:
        Bytes; None if no group has a limit.
    """
    limits: list[int] = []
    for path in _limit_files(root):
        with suppress(OSError, ValueError), open(path, encoding="ascii") as file:
            limits.append(int(file.read()))  # "max" of version 2 is no number
    return min((limit for limit in limits if limit < UNLIMITED_BYTES), default=None)


def _limit_files(root: str) -> Iterator[str]:
    """Files with the limits of this process's groups and of those around them.

    A container may see its group's path as the machine has it, but mounts only its own groups, at the top.
    """
    try:
        groups = Path(root, "proc/self/cgroup").read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return
    for line in groups:
        _, controllers, group = line.split(":", 2)
        for controller in controllers.split(","):
            if controller in GROUP_LIMITS:
                folder, name = GROUP_LIMITS[controller]
                path = PurePath(group.lstrip("/"))
                yield from (str(Path(root, folder, part, name)) for part in (path, *path.parents))
