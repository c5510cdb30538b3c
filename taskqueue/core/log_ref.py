"""Which entries of the log there are: values."""

from __future__ import annotations

from typing import Final, NamedTuple

LOG_MOST: Final = 100_000
"""Entries of the log that are kept; of a few hundred bytes each, and 3 kB at most."""


class LogRef(NamedTuple):
    """Entries of the log with numbers from ``first`` to below ``end``."""

    first: int
    end: int
