"""What is told of failures that have something in common."""

from __future__ import annotations

from typing import Final

NAMELESS: Final = {"error": "(no reason given)", "host": "(no host)"}
"""What people are told instead of an empty name."""


def share(failures: int, of: int) -> str:
    """Which part they are; a small one is not none."""
    return f"{failures / of:.0%}" if failures * 100 >= of else "<1%"
