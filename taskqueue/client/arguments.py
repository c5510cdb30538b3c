"""Arguments that callers give: times, counts, priorities, projects. One that can't be is refused by its name.

What a fetcher wants is checked before it is sent, because the daemon would refuse a whole hello for one thing in it,
and from then on every request of that client, whoever has asked.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from math import inf
from typing import Final, cast

import msgspec

from taskqueue.protocol.choices import NAME_WORDS
from taskqueue.protocol.fields import MAX_CAPACITY, Capacity, Priority, ProjectName

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


def time_limit(name: str, seconds: float) -> float | None:
    """Seconds as ``asyncio.timeout`` takes them: None for no limit.

    Raises:
        TypeError, ValueError: the argument of that name can't be; see ``checked_seconds``.
    """
    return None if (checked := checked_seconds(name, seconds)) == inf else checked


def checked_priority(priority: int) -> int:
    """The priority, if it can be one."""
    return _checked("priority", priority, Priority, "from -2^31 to 2^31 - 1")


def checked_capacity(name: str, tasks: int, least: int = 0) -> int:
    """The argument of that name, if a fetcher may want so many tasks.

    Raises:
        ValueError: it may not.
    """
    bounds = f"from {least} to {MAX_CAPACITY}"
    if _checked(name, tasks, Capacity, bounds) < least:
        raise ValueError(f"{name}: expected an integer {bounds}, got {tasks!r}")
    return tasks


def checked_names(projects: Iterable[str] | None) -> frozenset[str] | None:
    """The names, if projects may be called so."""
    if projects is None:
        return None
    if isinstance(projects, str):
        raise TypeError(f"projects: expected several names, such as [{projects!r}], got str")
    names = list(projects)
    for name in names:
        try:
            msgspec.convert(name, ProjectName)
        except msgspec.ValidationError:
            raise ValueError(f"projects: {name!r} is no project name: 1 to 64 {NAME_WORDS}") from None
    return frozenset(names)


def _checked(name: str, number: int, kind: object, bounds: str) -> int:
    try:
        return cast(int, msgspec.convert(number, kind))
    except msgspec.ValidationError:
        raise ValueError(f"{name}: expected an integer {bounds}, got {number!r}") from None
