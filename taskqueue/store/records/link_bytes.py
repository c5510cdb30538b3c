"""The links of a task in its record: bits of the state's byte, and what stands between the fixed part and the itag.

    state  bits  …  place | edge number, missing, on_failure | flow | itag
                            only with HAS_PARENTS              only with IN_FLOW

So a task without links has not a byte more. Of an awaited task, which is unknown, all that is kept is AWAITED.
"""

from __future__ import annotations

from struct import Struct as Packing
from typing import Final

from taskqueue.core.tasks.links import Links

HAS_CHILDREN: Final = 0x80
HAS_PARENTS: Final = 0x40
IN_FLOW: Final = 0x20
HAS_RESULT: Final = 0x10
"""No link, but beside them: the task has a result."""
STATE_MASK: Final = 0x0F

AWAITED: Final = bytes((HAS_CHILDREN,))
"""The value in ids of a task that is unknown, and that somebody waits for."""

_PARENTS: Final = Packing(">QHB")
_FLOW: Final = Packing(">I")


def join_links(record: bytes, size: int, links: Links) -> bytes:
    """The record with the links; ``size``: bytes of its fixed part."""
    bits, extra = 0, b""
    if links.has_children:
        bits = HAS_CHILDREN
    if links.number:
        bits |= HAS_PARENTS
        extra = _PARENTS.pack(links.number, links.missing, links.on_failure)
    if links.flow:
        bits |= IN_FLOW
        extra += _FLOW.pack(links.flow)
    return bytes((record[0] | bits,)) + record[1:size] + extra + record[size:]


def split_links(record: bytes, size: int) -> tuple[bytes, Links | None]:
    """The record with its state alone, and its links, if any; ``struct.error`` if it is too short."""
    bits, at = record[0], size
    if not bits & (HAS_CHILDREN | HAS_PARENTS | IN_FLOW):
        return bytes((bits & STATE_MASK,)) + record[1:], None
    links = Links(bits & HAS_CHILDREN != 0)
    if bits & HAS_PARENTS:
        links.number, links.missing, links.on_failure = _PARENTS.unpack_from(record, at)
        at += _PARENTS.size
    if bits & IN_FLOW:
        (links.flow,) = _FLOW.unpack_from(record, at)
        at += _FLOW.size
    return bytes((bits & STATE_MASK,)) + record[1:size] + record[at:], links
