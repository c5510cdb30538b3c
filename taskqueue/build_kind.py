"""Whether this taskqueue is compiled: its core and the packing of records, from the same sources, by mypyc."""

from __future__ import annotations

from importlib.util import find_spec


def is_compiled() -> bool:
    """Whether the core is compiled; else it is interpreted. Looks for the file only, and imports nothing large."""
    found = find_spec("taskqueue.core.turn")
    return found is not None and not (found.origin or "").endswith(".py")


def build_kind(compiled: bool) -> str:
    """The same in words."""
    return "compiled" if compiled else "not compiled"
