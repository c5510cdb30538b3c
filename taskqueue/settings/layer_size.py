"""Limits of the size of a layer of settings.

A view of a project contains three merged layers, and its overrides once more: with up to three hundred cron entries it
stays below 384 KiB, so a reply with one fits into the smallest ``max_message``. A project's record contains its
overrides and is written by each turn that touches the project, so large overrides cost each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf
from typing import Final

from taskqueue.errors import Rejected
from taskqueue.settings.environment import Environment
from taskqueue.settings.settings import Layer

MAX_LAYER_BYTES: Final = 64 << 10
"""Largest layer, packed."""

MAX_LAYER_MEMORY: Final = 1 << 20
"""Memory of one layer, at most: an empty map is one byte packed, and 72 in memory."""

MAX_LAYER_DEPTH: Final = 64
"""Nesting depth of one setting, at most: programs of users and our own views walk it recursively."""

MAX_OVERRIDES_MEMORY = 16 << 20
"""Memory of the overrides by ``project-set`` of all projects, at most."""

VALUE_BYTES: Final = 56
"""Memory of a value apart from its text, and of a map or list apart from its items."""
PAIR_BYTES: Final = 48
PLACE_BYTES: Final = 16


def check_memory(layer: Layer) -> None:
    """Check that a layer is neither too large in memory nor nested too deep, before other code walks it.

    Raises:
        Rejected: with the code ``setting``.
    """
    for reason in too_large(layer):
        raise Rejected("setting", reason)


def check_size(layer: Layer, environment: Environment) -> None:
    """Check that a layer is not too long in total.

    Raises:
        Rejected: with the code ``setting`` and a reason that names its longest setting.
    """
    for reason in too_long(layer, environment):
        raise Rejected("setting", reason)


def too_long(layer: Layer, environment: Environment) -> Iterator[str]:
    """Report the longest setting of a layer that is too long in total; values that can't be encoded are not counted."""
    sizes = {key: _packed_bytes({key: value}, environment) for key, value in layer.items()}
    total = sum(sizes.values())
    if total > MAX_LAYER_BYTES:
        longest = max(sizes, key=sizes.__getitem__)
        said = f"{sizes[longest]} of {total} bytes that are said here"
        yield f"{longest}: {said}; in all at most {MAX_LAYER_BYTES} are taken"
        return
    yield from too_large(layer)


def too_large(layer: Layer) -> Iterator[str]:
    """Report the setting that makes a layer too large in memory, or is nested too deep; stops looking at the limit."""
    left = MAX_LAYER_MEMORY
    for key, value in layer.items():
        left -= memory_bytes(value, left)
        if left < 0:
            yield f"{key}: it takes too much memory when it is decoded; in all at most {MAX_LAYER_MEMORY} are taken"
            return
    for key, value in layer.items():
        if _is_too_deep(value):
            yield f"{key}: nested too deep; at most {MAX_LAYER_DEPTH} values inside values are taken"


def _is_too_deep(value: object) -> bool:
    level: list[object] = [value]
    for _ in range(MAX_LAYER_DEPTH):
        level = [part for each in level for part in _parts(each)]
    return bool(level)


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list | tuple) else ()


def memory_bytes(value: object, enough: float = inf) -> int:
    """Estimate the memory of a setting or a map of settings, in bytes; above ``enough``, any larger number."""
    total, left = 0, [value]
    while left and total <= enough:
        each = left.pop()
        total += VALUE_BYTES
        if isinstance(each, dict):
            total += PAIR_BYTES * len(each)
            left += each
            left += each.values()
        elif isinstance(each, list | tuple):
            total += PLACE_BYTES * len(each)
            left += each
        elif isinstance(each, str | bytes):
            total += len(each)
    return total


def _packed_bytes(value: object, environment: Environment) -> int:
    try:
        return len(environment.pack(value))
    except Rejected:
        return 0
