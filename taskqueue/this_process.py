"""This process: whether its core is compiled, and how much memory it has."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.util import find_spec


def is_compiled() -> bool:
    """Return whether mypyc has compiled the core. Only looks for the file; imports nothing large."""
    found = find_spec("taskqueue.core.turn")
    return found is not None and not (found.origin or "").endswith(".py")


def build_kind(compiled: bool) -> str:
    """Describe the kind of a build, also of another process, in words."""
    return "compiled" if compiled else "not compiled"


def resident_bytes() -> int:
    """Return the resident bytes of this process; 0 if unknown, as without ``/proc``."""
    with suppress(OSError, ValueError, IndexError), open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
