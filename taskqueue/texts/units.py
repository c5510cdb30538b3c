"""Durations and sizes: one form in which users write them, and one in which they are shown.

A duration is a number of seconds, or a text: a number, maybe with a decimal point, and s, m, h or d: "90s", "1.5h",
"30d". Without a unit it is in seconds. A size is a whole number of bytes, or a text with a unit, a power of 1024:
"8 MiB", "512KiB", or "512M" as systemd and Docker write it. Values are stored and sent as seconds and bytes.
"""

from __future__ import annotations

import re
from typing import Final

EXAMPLES: Final = '"90s", "5m", "12h" or "30d"'
"""Valid durations, for messages about invalid ones."""

_DURATION: Final = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)([smhd]?)", re.ASCII)
_UNIT_SECONDS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION_PARTS: Final = (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1))
"""Rows of (unit, its seconds, the next smaller unit, its seconds)."""

CENTURY_SECONDS: Final = 100 * 365.25 * 86_400

_UNIT_BYTES: Final = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_BYTES_BY_LETTER: Final = {unit[0]: size for unit, size in _UNIT_BYTES.items()}
_SIZE: Final = re.compile(r"(\d{1,15}) ?(B|[KMGT](?:iB)?)", re.ASCII)


def parse_duration(written: str) -> float | None:
    """Parse a duration: ``"5m"`` as 300; None if it is invalid."""
    read = _DURATION.fullmatch(written)
    return float(read[1]) * _UNIT_SECONDS[read[2]] if read else None


def duration_text(seconds: float) -> str:
    """Format a duration: ``0.4 s``, ``34 s``, ``4 min 10 s``, ``3 h 20 min``, ``2 d 4 h``, ``over 100 years``."""
    if seconds < 9.95:
        return f"{max(0.0, seconds):.1f} s".replace(".0 s", " s")
    if seconds > CENTURY_SECONDS:  # A rate may be 1e-300, and the wait for a token 1e300 s.
        return "over 100 years"
    whole = round(seconds)
    for unit, size, lesser, part in _DURATION_PARTS:
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {unit} {rest} {lesser}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"


def parse_size(written: str) -> int | None:
    """Parse a size: ``"8 MiB"`` as 8388608; None if it is invalid. A unit is required, to avoid mistakes."""
    read = _SIZE.fullmatch(written)
    return int(read[1]) * _BYTES_BY_LETTER[read[2][0]] if read else None


def size_text(count: float) -> str:
    """Format bytes in the largest unit that fits: ``8 MiB`` if that is exact, else with one decimal: ``1.5 GiB``."""
    unit = next((unit for unit in reversed(_UNIT_BYTES) if count >= _UNIT_BYTES[unit]), "B")
    units = count / _UNIT_BYTES[unit]
    return f"{units:,.0f} {unit}" if unit == "B" or units.is_integer() else f"{units:,.1f} {unit}"
