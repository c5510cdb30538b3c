"""Numbers that a caller gives: how long to wait, and how many of something; what can't be is told with its name."""

from __future__ import annotations

import sys
from math import inf
from typing import Final

LARGEST: Final = sys.float_info.max


def checked_number(name: str, number: float, least: float = 0.0, most: float = inf, unit: str = "") -> float:
    """The argument of that name, if it is a number from ``least`` to ``most``; an integer beyond all floats is ``inf``.

    Raises:
        TypeError: the argument is not a number.
        ValueError: it is out of range, or not a number.
    """
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise TypeError(f"{name}: expected a number{unit and f' of {unit}'}, got {type(number).__name__}")
    if not least <= number <= most:
        expected = f"at least {least:g}" if most == inf else f"{least:g} to {most:g}"
        raise ValueError(f"{name}: expected {expected}{unit and f' {unit}'}, got {number}")
    return number if number <= LARGEST else inf


def checked_seconds(name: str, seconds: float, most: float = inf) -> float:
    """The argument of that name, if it is a time from 0 to ``most`` seconds; ``inf`` is for ever.

    Raises:
        TypeError, ValueError: the argument can't be; see ``checked_number``.
    """
    return checked_number(name, seconds, most=most, unit="seconds")


def checked_count(name: str, count: int, least: int = 1) -> int:
    """The argument of that name, if it counts at least so many things.

    Raises:
        TypeError: the argument is not an integer.
        ValueError: it is less than ``least``.
    """
    if isinstance(count, bool) or not isinstance(count, int):
        raise TypeError(f"{name}: expected an integer, got {type(count).__name__}")
    if count < least:
        raise ValueError(f"{name}: expected at least {least}, got {count}")
    return count


def limit(name: str, seconds: float | None) -> float | None:
    """Seconds as ``asyncio.timeout`` takes them: None for no limit.

    Raises:
        TypeError, ValueError: the argument of that name can't be; see ``checked_seconds``.
    """
    return None if seconds is None or (checked := checked_seconds(name, seconds)) == inf else checked
