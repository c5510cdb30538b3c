"""Numbers that a caller gives: how long to wait, and how many of something; what can't be is told with its name."""

from __future__ import annotations

from math import inf, isinf


def checked_seconds(name: str, seconds: float, most: float = inf) -> float:
    """The argument of that name, if it is a time from 0 to ``most`` seconds; ``inf`` is for ever.

    Raises:
        TypeError: the argument is not a number.
        ValueError: it is out of range, or not a number.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TypeError(f"{name}: expected a number of seconds, got {type(seconds).__name__}")
    if not 0 <= seconds <= most:
        expected = "at least 0" if most == inf else f"0 to {most:g}"
        raise ValueError(f"{name}: expected {expected} seconds, got {seconds}")
    return seconds


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
    return None if seconds is None or isinf(checked_seconds(name, seconds)) else seconds
