"""What a caller wants, if the daemon would take it: it refuses a whole hello for one thing that can't be.

From then on it would refuse every request of that client, whoever has asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import msgspec

from taskqueue.protocol.choices import NAME_WORDS
from taskqueue.protocol.fields import MAX_CAPACITY, Capacity, Priority, ProjectName


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
