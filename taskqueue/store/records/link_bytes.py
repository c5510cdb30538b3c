"""What a record says of some tasks only: bits of two bytes, and what stands between its fixed part and the itag.

    state  bits  …  retried  bits  …  place | pushed_at        | times             | slot, throttled
                                              only with DATED    only with PUT_OFF   only with IN_SLOT
                                            | edge number, missing, on_failure | flow              | itag
                                              only with HAS_PARENTS              only with IN_FLOW

When the task came counts as fixed: each task has it that came since it is kept.

So a task without them has not a byte more. Of an awaited task, which is unknown, all that is kept is AWAITED.
"""

from __future__ import annotations

from struct import Struct as Packing
from typing import Final

from taskqueue.core.tasks.links import Links
from taskqueue.core.tasks.task import Task

HAS_CHILDREN: Final = 0x80
HAS_PARENTS: Final = 0x40
IN_FLOW: Final = 0x20
HAS_RESULT: Final = 0x10
"""No link, but beside them: the task has a result."""
IN_SLOT: Final = 0x08
STATE_MASK: Final = 0x07

AWAITED: Final = bytes((HAS_CHILDREN,))
"""The value in ids of a task that is unknown, and that somebody waits for."""

RETRIED_AT: Final = 6
"""Offset of the first byte of ``retried``, whose upper half has the crashes, and this bit that it was put off."""
PUT_OFF: Final = 0x08
DATED: Final = 0x04
"""Beside it: the record says when the task first came."""

_PUT_OFF: Final = Packing(">H")
_PARENTS: Final = Packing(">QHB")
_FLOW: Final = Packing(">I")
_SLOT: Final = Packing(">IB")


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


def split_marked(record: bytes, size: int) -> tuple[bytes, Links | None, tuple[int, int]]:
    """The record with its state alone, its links, if any, and its slot, which is (number, throttled).

    Raises:
        struct.error: it is too short.
    """
    bits, at, slot = record[0], size, (0, 0)
    if bits & IN_SLOT:
        slot = _SLOT.unpack_from(record, at)
        at += _SLOT.size
    links = Links(bits & HAS_CHILDREN != 0) if bits & (HAS_CHILDREN | HAS_PARENTS | IN_FLOW) else None
    if links is not None and bits & HAS_PARENTS:
        links.number, links.missing, links.on_failure = _PARENTS.unpack_from(record, at)
        at += _PARENTS.size
    if links is not None and bits & IN_FLOW:
        (links.flow,) = _FLOW.unpack_from(record, at)
        at += _FLOW.size
    return bytes((bits & STATE_MASK,)) + record[1:size] + record[at:], links, slot


def join_slot(record: bytes, size: int, task: Task) -> bytes:
    """The record, which may have its links already, with the task's slot."""
    slot = _SLOT.pack(task.slot, task.throttled)
    return bytes((record[0] | IN_SLOT,)) + record[1:size] + slot + record[size:]


def join_put_off(record: bytes, size: int, times: int) -> bytes:
    """The record, which may have its links and its slot already, with how often the task was put off in a row."""
    marked = bytes((record[RETRIED_AT] | PUT_OFF,))
    return record[:RETRIED_AT] + marked + record[RETRIED_AT + 1 : size] + _PUT_OFF.pack(times) + record[size:]


def split_put_off(record: bytes, size: int) -> tuple[bytes, int]:
    """The record without the times that it was put off, and these.

    Raises:
        struct.error: it is too short.
    """
    (times,) = _PUT_OFF.unpack_from(record, size)
    return record[:size] + record[size + _PUT_OFF.size :], times
