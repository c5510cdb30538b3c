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
    """A slot as people see it. All times are unix seconds; 0: none.

    Attributes:
        name: empty: of the tasks that nothing tells apart, which have no pace.
        place: where it is: ready, waiting or parked in memory, or stored.
        number: in the store.
        delay: seconds from one hand-out to the next, on average.
        burst: tasks that may be handed out at once after a quiet time.
        max_processing: leases at once, at most.
        auto: its delay follows how fast it answers.
        ready: its ready tasks; if ``more`` it has more than these, which only the store counts.
        more: it has more ready tasks than ``ready`` says.
        processing: tasks of it that are handed out.
        until: nothing of it is handed out before.
        blocked_until: by a person, or as its host asked for it; ``inf``: until somebody lifts it.
        backoff: how often its host has refused, or could not be reached, in a row.
        backoff_until: it is left alone until then for that.
        errors: how often that has been, ever.
        taken: tasks that have been new in it while their number was limited, since its project was divided or cleared.
        max_tasks: at so many further ones are rejected; None: never.
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
    """How a project is divided into slots, as people see it.

    Attributes:
        by: none, host, domain or named.
        ready, waiting, parked: slots in memory, by where they are.
        stored: there are more with ready tasks, in the store only.
        moving: ready tasks are still to be moved to their slots; those are not handed out before.
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


class SlotSet(ChangeRequest["SlotReply"], tag="slot-set"):
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


class SlotShow(Request["SlotReply"], tag="slot-show"):
    """Tell all about one slot."""

    project: ProjectName
    slot: SlotName


class SlotPage(Struct, frozen=True):
    """The first slots of a project in some order.

    Attributes:
        by: how the project is divided: host, domain or named.
        count: slots that were looked at, those included that are not here.
        slots: the first ones in the order that was asked for.
    """

    by: str
    count: int
    slots: list[Slot]


class SlotListReply(SlotPage, AnyReply, frozen=True, kw_only=True, tag_field="type", tag="slot-list-reply"):
    """Answers ``slot-list``."""

    v: int = PROTOCOL
    n: int


class SlotDetails(Struct, frozen=True):
    """A slot, who says what of it, and its next tasks.

    Attributes:
        slot: as it is now.
        chosen: what a person has set for this slot.
        sources: who says delay (or rate), burst and max_processing, as they are in force: a person, the project, or
            the pattern in its setting ``slot.patterns`` that fits.
        tasks: the next ready ones.
    """

    slot: Slot
    chosen: dict[str, Setting]
    sources: dict[str, str]
    tasks: list[TaskRow]


class SlotReply(SlotDetails, AnyReply, frozen=True, kw_only=True, tag_field="type", tag="slot-reply"):
    """Answers ``slot-show``, ``slot-set``."""

    v: int = PROTOCOL
    n: int
