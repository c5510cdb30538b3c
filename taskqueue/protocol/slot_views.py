"""Slots as people see them, as values without methods."""

from __future__ import annotations

from msgspec import Struct

from taskqueue.protocol.choices import SlotPlace


class SlotView(Struct, omit_defaults=True):
    """A slot as people see it. All times are unix seconds; 0: none.

    Attributes:
        name: empty: of the tasks that nothing tells apart, which have no pace.
        number: in the store.
        delay: seconds from one hand-out to the next, on average.
        burst: tasks that may be handed out at once after a quiet time.
        max_processing: leases at once, at most.
        auto: its delay follows how fast it answers.
        ready: its ready tasks; if ``more`` it has more than these, which only the store counts.
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


class DivisionView(Struct, omit_defaults=True):
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
