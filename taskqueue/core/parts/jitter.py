"""Chance that is none: a few per cent more or less, so that what began at one time does not come back at one time."""

from __future__ import annotations

from typing import Final
from zlib import crc32

JITTER: Final = 0.1
"""The part by which a time is longer or shorter at most."""


def jitter(*of: object) -> float:
    """A factor from 1 - JITTER to 1 + JITTER, always the same of the same values, and evenly spread over others."""
    return 1.0 + JITTER * (crc32(repr(of).encode()) / 2**31 - 1.0)
