"""Kind of this build: mypyc compiles the core and the packing of records from the same sources."""

from __future__ import annotations

from importlib.util import find_spec


def is_compiled() -> bool:
    """Return whether the core is compiled rather than interpreted. Only looks for the file; imports nothing large."""
    found = find_spec("taskqueue.core.turn")
    return found is not None and not (found.origin or "").endswith(".py")


def build_kind(compiled: bool) -> str:
    """Describe the kind of a build in words."""
    return "compiled" if compiled else "not compiled"
