"""Limits of the machine: memory, room on the disk, open files; and a check that the settings fit.

Memory of this process, and of its machine or container, is known on Linux only. Large blocks are mapped apart from the
heap, so that each is returned to the system with its message; the rest is returned when the heap is trimmed. By default
glibc raises the mmap threshold up to 32 MiB as blocks are freed, and a fragmented heap was half as large again as its
content.

The memory that settings allow must fit into ``limits.memory``; docs/reference/limits.md explains the sum:

    program, store cache and memtables, heads, slots, leases   settings; at most SETTINGS_PART of the bound
    messages and connections                                   the rest; see ``connection_guard``

If the store's disk is nearly full, the daemon stops accepting tasks before writes fail:

    has space ──less than min_free is free──► nearly full ──SLACK × min_free is free──► has space

1. It is checked in turns, at most every LOOK_SECONDS, so that an idle daemon doesn't check.
2. A disk that is nearly full is checked every FULL_LOOK_SECONDS: nothing notifies when space is freed.
3. A disk that can't be checked counts as having space; a full one fails the next write.

The store keeps up to ``tuning.OPEN_FILES`` files open and must always be able to open one more; a listening socket
without free descriptors would try to accept, and fail, in a loop.
"""

from __future__ import annotations

import ctypes
import logging
import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from math import inf
from pathlib import Path, PurePath
from typing import Final

from taskqueue.errors import SettingError
from taskqueue.server.config import Config
from taskqueue.store.rocksdb.tuning import MEMTABLES_BYTES, OPEN_FILES
from taskqueue.texts.units import size_text

log = logging.getLogger("taskqueue")

# ------------------------------------------------------------------------------------------------ memory of the process

MMAP_THRESHOLD_BYTES: Final = 4 << 20
"""Size from which on blocks are mapped; with 512 KiB a message of that length cost ten times as much to send."""
TRIM_THRESHOLD_BYTES: Final = 128 << 20
"""Free bytes at the end of the heap that trigger a trim; glibc's 128 KiB would trigger one with every message."""
M_MMAP_THRESHOLD: Final = -3
M_TRIM_THRESHOLD: Final = -1
"""Parameters of mallopt(3)."""

GROUP_LIMITS: Final = {
    "": ("sys/fs/cgroup", "memory.max"),
    "memory": ("sys/fs/cgroup/memory", "memory.limit_in_bytes"),
}
"""Folders of control groups, and the file with a group's limit, by controller.

Version 2 names no controller, version 1 does (cgroups(7), cgroup-v2 and memory in the kernel's documentation).
"""
UNLIMITED_BYTES: Final = 1 << 60
"""Limit that counts as none; version 1 has 2^63 less a page for a group without a limit."""


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
        """Return resident bytes; 0 if unknown."""
        return int(os.pread(self._statm, 128, 0).split()[1]) * self._page if self._statm >= 0 else 0

    def trim(self) -> None:
        """Return unused heap to the system; takes milliseconds."""
        with suppress(AttributeError):
            self._libc.malloc_trim(0)

    def close(self) -> None:
        """Close its file in /proc."""
        if self._statm >= 0:
            os.close(self._statm)
            self._statm = -1


def machine_bytes() -> int:
    """Return the bytes of the machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def group_bytes(root: str = "/") -> int | None:
    """Return the memory that the control groups of this process allow: the smallest limit from its own group upwards.

    A service manager sets it (``MemoryMax=``), or a container, for itself or for a group around it.

    Args:
        root: folder that has ``/proc`` and ``/sys``.

    Returns:
        Bytes; None if no group has a limit.
    """
    limits: list[int] = []
    for path in _limit_files(root):
        with suppress(OSError, ValueError), open(path, encoding="ascii") as file:
            limits.append(int(file.read()))  # "max" of version 2 is not a number
    return min((limit for limit in limits if limit < UNLIMITED_BYTES), default=None)


def _limit_files(root: str) -> Iterator[str]:
    """Yield files with the limits of this process's groups and of those around them.

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


# ------------------------------------------------------------------------------------------------ memory by settings

PROGRAM_BYTES: Final = 45_000_000
SLOT_BYTES: Final = 1024
"""Memory of a slot without its tasks."""
LEASE_BYTES: Final = 512
"""Memory of a leased task, without its URL and its body."""
HEADS_PART: Final = 1.625
"""Memory as a multiple of ``advanced.queue_bytes``.

1 for heads; a quarter for large bodies whose turn has come; a quarter for bodies of leases; an eighth for deferred
updates.
"""
SETTINGS_PART: Final = 0.8
"""Part of ``limits.memory`` that settings may allow; messages get the rest."""


def check_memory(config: Config) -> None:
    """Check that the settings fit into ``limits.memory``.

    Raises:
        SettingError: they don't; the message proposes a value that fits.
    """
    limits, advanced = config.limits, config.advanced
    settled = needed_bytes(config)
    if settled > SETTINGS_PART * limits.memory:
        least = int(settled / SETTINGS_PART / (1 << 20)) + 1
        raise SettingError(
            f"limits.memory = {size_text(limits.memory)} is too little for "
            f"advanced.queue_bytes = {size_text(advanced.queue_bytes)}, limits.max_leases = {limits.max_leases}, "
            f"advanced.slots_in_memory = {advanced.slots_in_memory} and store.cache = {size_text(config.store.cache)}: "
            f'lower one of these, or set limits.memory = "{least} MiB"'
        )


def needed_bytes(config: Config) -> int:
    """Return the memory that the settings allow the daemon to use, without messages."""
    limits, advanced = config.limits, config.advanced
    heads = int(HEADS_PART * advanced.queue_bytes)
    counted = LEASE_BYTES * limits.max_leases + SLOT_BYTES * advanced.slots_in_memory
    embedded = 0 if config.store.url else MEMTABLES_BYTES + config.store.cache
    return PROGRAM_BYTES + embedded + heads + counted


# ------------------------------------------------------------------------------------------------ disk

LOOK_SECONDS: Final = 0.05
"""Pause between two checks of the disk, each of which takes two microseconds.

With one a second, a client that pushes as fast as it can had 180 MB written below ``min_free`` before the check that
noticed.
"""
FULL_LOOK_SECONDS: Final = 5.0
SLACK: Final = 1.1


class DiskSpace:
    """Free space of a folder's disk; with an empty path, space that can't be checked, such as a database's.

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
        """Boot-clock seconds at which the disk must be checked even in an idle daemon; inf for never."""
        return inf if self.has_room else self._looked_at + FULL_LOOK_SECONDS

    def use(self, min_free: int) -> None:
        """Change ``min_free``, in bytes."""
        self._min_free = min_free
        self._looked_at = -inf

    def free_bytes(self) -> int | None:
        """Return the free bytes now; None if unknown."""
        free = _free_bytes(self._path)
        return None if free == inf else int(free)

    def look(self, now_boot: float) -> bool:
        """Check, unless the last check was within LOOK_SECONDS; return whether ``has_room`` has changed."""
        if now_boot < self._looked_at + LOOK_SECONDS:
            return False
        self._looked_at = now_boot
        free = _free_bytes(self._path)
        had_room = self.has_room
        self.has_room = free >= (self._min_free if had_room else SLACK * self._min_free)
        if self.has_room == had_room:
            return False
        if self.has_room:
            log.warning("disk-has-room free=%d; tasks are accepted and dispatched again", free)
        else:
            log.error("disk-nearly-full free=%d min_free=%d; no tasks are accepted or dispatched", free, self._min_free)
        return True


def _free_bytes(path: str) -> float:
    try:
        found = os.statvfs(path)
    except OSError:
        return inf
    return found.f_bavail * found.f_frsize


# ------------------------------------------------------------------------------------------------ open files

SPARE_FILES: Final = 256
"""Files for logs, sockets, reads at a start, and connections that arrive faster than they are refused."""


def raise_limit() -> int:
    """Raise the soft limit of open files to the hard one, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return soft


def max_connections(files: int) -> int:
    """Return how many of ``files`` may be connections: all but the store's and SPARE_FILES, at least a quarter."""
    return max(files - OPEN_FILES - SPARE_FILES, files // 4)
