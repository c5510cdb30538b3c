"""What is told of an error."""

from __future__ import annotations


def last_line(error: str) -> str:
    """The last line of an error; of a traceback, its exception."""
    return error.strip().rpartition("\n")[2]
