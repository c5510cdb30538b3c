"""Messages about slots: the parts of a project's tasks, such as those of one host, that have paces of their own."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from taskqueue.protocol.base import AnyReply, ChangeRequest, Request
from taskqueue.protocol.choices import SlotPlace, SlotSort
from taskqueue.protocol.fields import (
    MAX_SLOT_BURST,
    MAX_SLOT_DELAY_SECONDS,
    MIN_SLOT_RATE,
    PROTOCOL,
    ProjectName,
    Setting,
    SlotName,
)
from taskqueue.protocol.tasks import TaskRow


class Slot(Struct, frozen=True, omit_defaults=True):
    """A slot, as users see it. All moments are unix seconds, 0: none.

    Attributes:
        name: host, domain, or the name that its tasks have; empty: tasks without a slot, which have no pace.
        place: ready: it may go on; waiting: not before a time; parked: not before one of its tasks has ended, or its
            next ones have been read; stored: only in the store.
        number: number of the slot in the store.
        delay: seconds from one dispatch to the next, on average.
        burst: tasks that may be dispatched at once after a quiet time.
        max_processing: most leases at once; may be infinite.
        auto: its delay follows how fast it answers.
        ready: ready tasks that were counted: those in memory or, of all slots by backlog, all of them.
        more: it has more ready tasks than ``ready``.
        processing: leased tasks.
        until: nothing is dispatched before.
        blocked_until: blocked until then, by a user or by its host; may be infinite.
        backoff: times in a row that its host has refused, or could not be reached.
        backoff_until: it pauses until then because of that.
        errors: such failures in all.
        taken: new tasks while their number was limited, since the project was divided or cleared.
        max_tasks: most new tasks; further ones are rejected with ``slot-full``. None: no limit.
    """

    name: str
    place: SlotPlace
    number: int
    delay: float = 0.0
    burst: float = 1.0
    max_processing: float = 1.0
    auto: bool = False
    ready: int = 0
    more: bool = False
    processing: int = 0
    until: float = 0.0
    blocked_until: float = 0.0
    backoff: int = 0
    backoff_until: float = 0.0
    errors: int = 0
    taken: int = 0
    max_tasks: float | None = None


class SlotDivision(Struct, frozen=True, omit_defaults=True):
    """How a project is divided into slots.

    Attributes:
        by: host, domain or named; none: it no longer is.
        ready: slots in memory that may go on.
        waiting: slots in memory that wait for a time.
        parked: slots in memory that wait for something else.
        stored: more slots with ready tasks are in the store only.
        moving: ready tasks from before the division are still being moved to their slots, and are not dispatched
            before.
    """

    by: str
    ready: int = 0
    waiting: int = 0
    parked: int = 0
    stored: bool = False
    moving: bool = False


SLOTS_SHOWN_MOST: Final = 1000
"""Most slots in one ``slot-list-reply``."""


class SlotList(Request["SlotListReply"], tag="slot-list"):
    """List the first slots of a project.

    Attributes:
        by: most ready tasks first, most errors first, longest delay first, or by name.
        all: slots that are in the store only as well; false: slots in memory, which are all that may go on next.
    """

    project: ProjectName
    by: SlotSort = "backlog"
    limit: Annotated[int, Meta(ge=1, le=SLOTS_SHOWN_MOST)] = 100
    all: bool = False


SlotFact = Literal["delay", "rate", "burst", "max_processing", "max_tasks", "block_until"]
"""Field of ``slot-set`` that sets something."""


class SlotSet(ChangeRequest["SlotReply"], tag="slot-set"):
    """Set the pace of one slot, now and across restarts; it overrides the project's settings.

    Attributes:
        delay: seconds from one dispatch to the next; ``"auto"``: as fast as the slot answers. Replaces a rate.
        rate: tasks dispatched a second, on average; infinity: no delay. Replaces a delay.
        burst: with a rate: tasks that may be dispatched at once after a quiet time.
        max_processing: most leases at once: a whole number, or infinity.
        max_tasks: most new tasks, after which further ones are rejected: a whole number, or infinity.
        block_until: unix seconds before which nothing is dispatched, at most 1e11, or infinity; replaces any earlier
            block.
        unset: fields to forget. ``block_until`` ends every pause of the slot, back-offs and those that its host asked
            for included.
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


class SlotShow(Request["SlotReply"], tag="slot-show"):
    """Show one slot."""

    project: ProjectName
    slot: SlotName


class SlotPage(Struct, frozen=True):
    """The first slots of a project, in the order that was asked for.

    Attributes:
        by: how the project is divided: host, domain or named.
        count: slots scanned, those included that are not listed.
        slots: the first ones.
    """

    by: str
    count: int
    slots: list[Slot]


class SlotListReply(SlotPage, AnyReply, frozen=True, kw_only=True, tag_field="type", tag="slot-list-reply"):
    """The first slots of a project, in the order that was asked for."""

    v: int = PROTOCOL
    n: int


class SlotDetails(Struct, frozen=True):
    """A slot, who set its pace, and its next tasks.

    Attributes:
        slot: as it is now; up to 2,048 of its ready tasks are counted.
        chosen: what a user has set for this slot.
        sources: where ``delay`` (or rate), ``burst``, ``max_processing`` and ``max_tasks`` come from: ``person`` (set
            for this slot), ``project``, or the matching pattern of the setting ``slot.patterns``.
        tasks: its next ready tasks, at most 5.
    """

    slot: Slot
    chosen: dict[str, Setting]
    sources: dict[str, str]
    tasks: list[TaskRow]


class SlotReply(SlotDetails, AnyReply, frozen=True, kw_only=True, tag_field="type", tag="slot-reply"):
    """A slot, who set its pace, and its next tasks."""

    v: int = PROTOCOL
    n: int
