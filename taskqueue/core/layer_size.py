"""How long a layer of settings may be in all.

A view of a project has three layers merged, and its overrides once more: with up to three hundred jobs it stays below
320 KiB, so a reply that shows one fits into the shortest ``max_message`` there is. The record of a project has its
overrides, and each turn that touches the project writes it: whoever overrides much pays that each time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from taskqueue.core.given import Given
from taskqueue.core.settings import Layer
from taskqueue.errors import Rejected

MAX_LAYER_BYTES: Final = 64 << 10
"""All that one layer says, packed."""


def check_size(layer: Layer, given: Given) -> None:
    """See that a layer is not too long in all.

    Raises:
        Rejected: with the code ``setting`` and a reason that names the longest of its settings.
    """
    for reason in too_long(layer, given):
        raise Rejected("setting", reason)


def too_long(layer: Layer, given: Given) -> Iterator[str]:
    """Say which setting is the longest of a layer that is too long in all; what can't be encoded is not counted."""
    sizes = {key: _packed_bytes({key: value}, given) for key, value in layer.items()}
    total = sum(sizes.values())
    if total > MAX_LAYER_BYTES:
        longest = max(sizes, key=sizes.__getitem__)
        said = f"{sizes[longest]} of {total} bytes that are said here"
        yield f"{longest}: {said}; in all at most {MAX_LAYER_BYTES} are taken"


def _packed_bytes(value: object, given: Given) -> int:
    try:
        return len(given.pack(value))
    except Rejected:
        return 0
