"""A slot in memory: its best tasks, its pace, and where it waits.

              ┌───────────────── it may go: in the order of its best task ──────────────► ready
    in memory ┼───────────────── not before a time: in the order of that ───────────────► waiting
              └───────────────── as many of its tasks are run as may be, or the next
                                 ones are to be read: whatever changes that moves it ───► parked

The pace is the generic cell rate algorithm (see ``slot_pace``), in *ticks* of the boot clock, a little less than a
microsecond each, rounded so that no hand-out is early: ``due`` is when the next one is due if all came evenly, and it
may come ``tolerance`` before that. A delay is an interval without a tolerance.
"""

from __future__ import annotations

from math import ceil
from typing import Final, Literal

from taskqueue.core.model.heads import Head
from taskqueue.core.model.now import Now
from taskqueue.core.model.slot_pace import SlotPace
from taskqueue.core.model.slot_records import SlotRecord

SECOND: Final = 1 << 20
"""Ticks: whole numbers of them are exact as seconds, so that whoever sleeps until one is not woken a moment early."""

AHEAD: Final = SECOND
"""A slot of which several tasks may be run at once hands out those that are due within this time."""

LONG_WINDOW: Final = 60 * SECOND
"""Of a longer window the store is told at the hand-out; shorter ones begin anew when the daemon starts."""

FOREVER: Final = 1e11
"""Unix seconds that nobody will see."""

STEP: Final = SECOND // 10
"""By this much the wall clock must run ahead of the boot clock from one turn to the next to have been put forward; less
is how clocks are kept right."""

DELAY_PART: Final = 0.2
"""By this part the automatic delay of a slot in memory may differ from the one in the store."""

Place = Literal["ready", "waiting", "parked"]


class SlotClock:
    """The time of the turn, in the units of slots.

    Attributes:
        now: boot-clock ticks, rounded down: what may go at this time may go.
        begun: the same, rounded up: what is handed out now counts from then on.
        stepped: by how much the wall clock has been put forward since the daemon started.
        stepped_at: when that was seen last.
    """

    __slots__ = ("_boot", "_wall", "begun", "now", "stepped", "stepped_at")

    def __init__(self) -> None:
        self.now = 0
        self.begun = 0
        self.stepped = 0
        self.stepped_at = 0
        self._wall = 0.0
        self._boot = 0.0

    def set(self, now: Now) -> None:
        """The time of the next turn."""
        forward = ceil(((now.wall - self._wall) - (now.boot - self._boot)) * SECOND)
        if forward > STEP and self._wall:
            self.stepped += forward
            self.stepped_at = ceil(now.boot * SECOND)
        self._wall, self._boot = now.wall, now.boot
        self.now = int(now.boot * SECOND)
        self.begun = ceil(now.boot * SECOND)

    def from_wall(self, at: float) -> int:
        """A time in unix seconds on the boot clock, in ticks."""
        return ceil((at - self._wall + self._boot) * SECOND)

    def due_from_wall(self, at: float, window: int) -> int:
        """When a slot with this window may go that was to wait until ``at``, in unix seconds.

        If the wall clock has been put forward, it may not have been when that was stored: later by as much then, but
        not than by what was handed out at the latest before it was put forward.
        """
        due = self.from_wall(at)
        return max(due, min(due + self.stepped, self.stepped_at + window)) if self.stepped else due

    def to_wall(self, at: int) -> float:
        """A time on the boot clock in unix seconds; a little later rather than earlier."""
        return (at + 1) / SECOND - self._boot + self._wall


class Slot:
    """A slot that is in memory.

    Attributes:
        number: the upper part of the places of its tasks.
        head: its best ready tasks.
        leases: how many of its tasks are handed out.
        due: when its next task is due by its pace, in ticks.
        until: before which nothing is handed out whatever its pace: back-off and blocks.
        last: when its last task was handed out, or should be started.
        place: where it waits; ``mark`` is its mark there, 0: none.
        entry: in the order by best task in the store; 0: none.
        aside: tasks that stand aside in this turn; it stays in memory for them.
        read_tasks: how many tasks its next read takes.
        kept_delay: its automatic delay as the store has it.
    """

    __slots__ = (
        "aside", "due", "entry", "head", "kept_delay", "last", "leases", "mark", "number", "pace", "place",
        "read_tasks", "record", "until",
    )  # fmt: skip

    def __init__(self, number: int, record: SlotRecord, pace: SlotPace, head: Head) -> None:
        self.number = number
        self.record = record
        self.pace = pace
        self.head = head
        self.leases = 0
        self.due = 0
        self.until = 0
        self.last = 0
        self.place: Place = "parked"
        self.mark = 0
        self.entry = 0
        self.read_tasks = 0
        self.aside = 0
        self.kept_delay = record.auto_delay

    @property
    def is_full(self) -> bool:
        """As many of its tasks are handed out as may be."""
        return self.leases >= self.pace.most

    @property
    def has_more(self) -> bool:
        """It has ready tasks."""
        return len(self.head) > 0 or self.is_dry

    @property
    def is_dry(self) -> bool:
        """Its next tasks are to be read."""
        return self.head.first() is None and self.head.is_partial

    @property
    def interval(self) -> int:
        """Ticks between its tasks, on average."""
        return ceil(self.pace.interval * SECOND)

    @property
    def window(self) -> int:
        """Ticks after which it may go on whatever was handed out before."""
        ahead = AHEAD if self.pace.most > 1 else 0
        return self.interval + int(self.pace.tolerance * SECOND) + ahead

    def goes_at(self) -> int:
        """When it may go on, in ticks."""
        at = self.due - int(self.pace.tolerance * SECOND)
        return at if at > self.until else self.until

    def looks_at(self) -> int:
        """When it is to be looked at: some time before, if it may hand out several tasks ahead."""
        at = self.goes_at()
        return max(self.until, at - AHEAD) if self.pace.most > 1 else at

    def forgotten_at(self) -> int:
        """From when on it is as if nothing had ever been handed out."""
        return max(self.due, self.until)

    def begin(self, clock: SlotClock) -> int:
        """One of its tasks is handed out; returns for how many ticks that is not to be started."""
        start = max(clock.begun, self.goes_at())
        self.due = max(self.due, start) + self.interval
        self.last = start
        self.leases += 1
        return start - clock.begun

    def began_at(self, start: int) -> None:
        """A task of it turns out to have begun at ``start``, maybe later than it was handed out."""
        if start > self.last:
            self.last = start
            self.due = max(self.due, start + self.interval)

    def slow_down(self) -> None:
        """Its interval may be longer now: keep that after its last task, too."""
        if self.last:
            self.due = max(self.due, self.last + self.interval)

    def hurry(self, since: int) -> None:
        """Its interval may be shorter now: its next task is due no later than by that, from ``since`` on."""
        self.due = min(self.due, since + self.window)

    @property
    def is_delay_old(self) -> bool:
        """The store does not have its automatic delay."""
        return self.record.auto_delay != self.kept_delay

    @property
    def is_delay_wrong(self) -> bool:
        """Its automatic delay is another one by far than the store has."""
        return abs(self.record.auto_delay - self.kept_delay) > DELAY_PART * self.kept_delay

    def wait_until(self, clock: SlotClock) -> None:
        """Take over from its record until when it waits, whatever its pace."""
        until = max(self.record.blocked_until, self.record.backoff_until)
        self.until = clock.from_wall(min(until, FOREVER)) if until else 0
