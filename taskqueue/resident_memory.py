"""Resident memory of this process, for the daemon and for workers."""

from __future__ import annotations

import os
from contextlib import suppress


def resident_bytes() -> int:
    """Return the resident bytes of this process; 0 if unknown, as without ``/proc``."""
    with suppress(OSError, ValueError, IndexError), open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
