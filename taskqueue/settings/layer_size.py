"""How long a layer of settings may be in all.

A view of a project has three layers merged, and its overrides once more: with up to three hundred jobs it stays below
320 KiB, so a reply that shows one fits into the shortest ``max_message`` there is. The record of a project has its
overrides, and each turn that touches the project writes it: whoever overrides much pays that each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf
from typing import Final

from taskqueue.errors import Rejected
from taskqueue.settings.environment import Environment
from taskqueue.settings.settings import Layer

MAX_LAYER_BYTES: Final = 64 << 10
"""All that one layer says, packed."""

MAX_LAYER_MEMORY: Final = 1 << 20
"""Memory of one layer: an empty map is one byte packed, and 72 there."""

MAX_LAYER_DEPTH: Final = 64
"""Values inside values of one setting: people's programs, and our own views, walk through them frame by frame."""

MAX_OVERRIDES_MEMORY = 16 << 20
"""What ``project-set`` has said of all projects, in memory."""

VALUE_BYTES: Final = 56
"""Memory of a value besides its text, and of a map or a list besides its items."""
PAIR_BYTES: Final = 48
PLACE_BYTES: Final = 16


def check_memory(layer: Layer) -> None:
    """See that a layer does not take too much memory and is not nested deep, before anything else looks at all of it.

    Raises:
        Rejected: with the code ``setting``.
    """
    for reason in too_large(layer):
        raise Rejected("setting", reason)


def check_size(layer: Layer, environment: Environment) -> None:
    """See that a layer is not too long in all.

    Raises:
        Rejected: with the code ``setting`` and a reason that names the longest of its settings.
    """
    for reason in too_long(layer, environment):
        raise Rejected("setting", reason)


def too_long(layer: Layer, environment: Environment) -> Iterator[str]:
    """Say which setting is the longest of a layer that is too long in all; what can't be encoded is not counted."""
    sizes = {key: _packed_bytes({key: value}, environment) for key, value in layer.items()}
    total = sum(sizes.values())
    if total > MAX_LAYER_BYTES:
        longest = max(sizes, key=sizes.__getitem__)
        said = f"{sizes[longest]} of {total} bytes that are said here"
        yield f"{longest}: {said}; in all at most {MAX_LAYER_BYTES} are taken"
        return
    yield from too_large(layer)


def too_large(layer: Layer) -> Iterator[str]:
    """Say which setting takes most of a layer that takes too much memory, or is nested too deep; looks at no more than
    may be taken.
    """
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
    """About what a setting, or a map of them, takes in memory with all in it; above ``enough``, any such number."""
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
