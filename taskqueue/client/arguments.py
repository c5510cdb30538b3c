"""Checks of callers' arguments: times, counts, priorities, projects. An error names the argument.

A fetcher's wants are checked before they are sent, because the daemon would refuse a whole hello for one wrong value,
and from then on every request of that client, whichever caller made it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from math import inf
from pathlib import Path
from typing import Final, cast

import msgspec

from taskqueue.access.key_file import KeyFile, find_local_key, read_key
from taskqueue.protocol.choices import NAME_WORDS
from taskqueue.protocol.fields import MAX_CAPACITY, Capacity, Priority, ProjectName

LARGEST: Final = sys.float_info.max


def checked_number(name: str, number: float, least: float = 0.0, most: float = inf, unit: str = "") -> float:
    """Return a number from ``least`` to ``most``; an integer beyond all floats becomes ``inf``.

    Raises:
        TypeError: the argument is not a number.
        ValueError: it is out of range, or NaN.
    """
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise TypeError(f"{name}: expected a number{unit and f' of {unit}'}, got {type(number).__name__}")
    if not least <= number <= most:
        expected = f"at least {least:g}" if most == inf else f"{least:g} to {most:g}"
        raise ValueError(f"{name}: expected {expected}{unit and f' {unit}'}, got {number}")
    return number if number <= LARGEST else inf


def checked_seconds(name: str, seconds: float, most: float = inf) -> float:
    """Return a time from 0 to ``most`` seconds; ``inf`` is for ever.

    Raises:
        TypeError, ValueError: the argument is invalid; see ``checked_number``.
    """
    return checked_number(name, seconds, most=most, unit="seconds")


def checked_count(name: str, count: int, least: int = 1) -> int:
    """Return an integer of at least ``least``.

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
    """Return seconds in the form that ``asyncio.timeout`` takes: None for no limit.

    Raises:
        TypeError, ValueError: the argument is invalid; see ``checked_seconds``.
    """
    return None if (checked := checked_seconds(name, seconds)) == inf else checked


def checked_priority(priority: int) -> int:
    """Return a valid priority."""
    return _checked("priority", priority, Priority, "from -2^31 to 2^31 - 1")


def checked_capacity(name: str, tasks: int, least: int = 0) -> int:
    """Return a number of tasks that a fetcher may want.

    Raises:
        ValueError: it may not want that many.
    """
    bounds = f"from {least} to {MAX_CAPACITY}"
    if _checked(name, tasks, Capacity, bounds) < least:
        raise ValueError(f"{name}: expected an integer {bounds}, got {tasks!r}")
    return tasks


def checked_names(projects: Iterable[str] | None) -> frozenset[str] | None:
    """Return names that projects can have."""
    if projects is None:
        return None
    if isinstance(projects, str):
        raise TypeError(f"projects: expected several names, such as [{projects!r}], got str")
    names = list(projects)
    for name in names:
        try:
            msgspec.convert(name, ProjectName)
        except msgspec.ValidationError:
            raise ValueError(f"projects: {name!r} is not a project name: 1 to 64 {NAME_WORDS}") from None
    return frozenset(names)


def _checked(name: str, number: int, kind: object, bounds: str) -> int:
    try:
        return cast(int, msgspec.convert(number, kind))
    except msgspec.ValidationError:
        raise ValueError(f"{name}: expected an integer {bounds}, got {number!r}") from None


def client_key(key: str | os.PathLike[str] | KeyFile | None, address: str) -> KeyFile | None:
    """Return the key that a client is to use, read from its file; None: it has none.

    Args:
        key: a key or its file; empty: no key; None: that in the environment's TASKQUEUE_KEY, or else local.key of a
            daemon on this machine.
        address: address of the daemon.

    Raises:
        ConfigError: the file can't be used.
    """
    if isinstance(key, KeyFile):
        return key
    named = os.environ.get("TASKQUEUE_KEY") or find_local_key(address) if key is None else key
    return read_key(Path(named)) if named else None
