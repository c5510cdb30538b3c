"""What a caller wants, if the daemon would take it: it refuses a whole hello for one thing that can't be.

From then on it would refuse every request of that client, whoever has asked.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from taskqueue.protocol.fields import MAX_CAPACITY, Capacity, Priority, ProjectName


def checked_priority(priority: int) -> int:
    """The priority, if the daemon would take it: it refuses a whole hello for one that can't be."""
    try:
        return msgspec.convert(priority, Priority)
    except msgspec.ValidationError:
        raise ValueError(f"priority: expected an integer from -2^31 to 2^31 - 1, got {priority!r}") from None


def checked_capacity(name: str, tasks: int) -> int:
    """So many tasks, if the daemon would take the number: it refuses a whole hello for one that can't be."""
    try:
        return msgspec.convert(tasks, Capacity)
    except msgspec.ValidationError:
        raise ValueError(f"{name}: expected an integer from 0 to {MAX_CAPACITY}, got {tasks!r}") from None


def checked_names(projects: Iterable[str] | None) -> frozenset[str] | None:
    """The wishes, if the daemon would take them: it refuses a whole hello for one name that can't be."""
    if projects is None:
        return None
    if isinstance(projects, str):
        raise TypeError(f"projects: expected several names, such as [{projects!r}], got str")
    names = list(projects)
    for name in names:
        try:
            msgspec.convert(name, ProjectName)
        except msgspec.ValidationError:
            raise ValueError(
                f"projects: {name!r} is no project name: 1 to 64 ASCII letters, digits, _, - and ."
            ) from None
    return frozenset(names)
