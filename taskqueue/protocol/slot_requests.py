"""Requests about slots: the parts of a project's tasks, such as those of one host, that have paces of their own."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from taskqueue.protocol.choices import SlotSort
from taskqueue.protocol.crawl_requests import Change, Request
from taskqueue.protocol.fields import ProjectName, SlotName

SLOTS_SHOWN_MOST: Final = 1000
"""Most slots in one ``slot-list-reply``."""

MAX_SLOT_DELAY_SECONDS: Final = 1e6
"""Longest delay of a slot, eleven days: tasks that are further apart have times of their own."""
MIN_SLOT_RATE: Final = 0.0001
MAX_SLOT_BURST: Final = 1e6


class SlotList(Request, tag="slot-list"):
    """Which slots has a project? The first ones, in this order.

    Attributes:
        by: the most ready tasks, the most errors or the longest delay first; or name.
        all: also those that are in the store only; answered some turns later, when all have been looked at. If not,
            those in memory, at once: all that may go on next.
    """

    project: ProjectName
    by: SlotSort = "backlog"
    limit: Annotated[int, Meta(ge=1, le=SLOTS_SHOWN_MOST)] = 100
    all: bool = False


SlotFact = Literal["delay", "rate", "burst", "max_processing", "max_tasks", "block_until"]
"""What can be said of one slot."""


class SlotSet(Change, tag="slot-set"):
    """Say how one slot goes, now and across restarts; it wins over the project's settings. None: nothing is said.

    The slot need not have had a task yet.

    Attributes:
        delay: seconds from one hand-out to the next, or auto: as fast as it answers. A delay and a rate replace each
            other.
        rate: tasks handed out a second, on average; inf: no delay.
        burst: with a rate: tasks that may be handed out at once after a quiet time.
        max_processing: leases at once, at most: a whole number, or inf.
        max_tasks: tasks that have been new in it at which further ones are rejected: a whole number, or inf.
        block_until: nothing is handed out before, in unix seconds, whatever block there was; inf: until somebody unsets
            it.
        unset: what is not to be said any more. With block_until every pause of the slot is over, also one that its host
            has asked for.
    """

    project: ProjectName
    slot: SlotName
    delay: Annotated[float, Meta(ge=0, le=MAX_SLOT_DELAY_SECONDS)] | Literal["auto"] | None = None
    rate: Annotated[float, Meta(ge=MIN_SLOT_RATE)] | None = None
    burst: Annotated[float, Meta(ge=1, le=MAX_SLOT_BURST)] | None = None
    max_processing: Annotated[float, Meta(ge=1)] | None = None
    max_tasks: Annotated[float, Meta(ge=1)] | None = None
    block_until: Annotated[float, Meta(ge=0)] | None = None
    unset: Annotated[tuple[SlotFact, ...], Meta(max_length=6)] = ()


class SlotShow(Request, tag="slot-show"):
    """Tell all about one slot."""

    project: ProjectName
    slot: SlotName
