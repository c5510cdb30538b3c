"""Slots in memory: best tasks, pace, and place where each waits.

              ┌───────────────── may go now: ordered by best task ─────────────────────► ready
    in memory ┼───────────────── may go later: ordered by time ────────────────────────► waiting
              └───────────────── has all its leases, or its next tasks are to be
                                 read: moved when that changes ────────────────────────► parked

The pace is the generic cell rate algorithm (see ``slot_pace``), in *ticks* of the boot clock, a little less than a
microsecond each, rounded so that no dispatch is early: ``due`` is when the next one is due at an even pace, and it
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
"""Ticks per second; whole ticks are exact as seconds, so a sleep until one does not end a moment early."""

AHEAD: Final = SECOND
"""Ticks within which dispatches are made ahead, in a slot that may run several tasks at once."""

LONG_WINDOW: Final = 60 * SECOND
"""Window in ticks beyond which dispatches are stored at once; shorter windows begin anew when the daemon starts."""

FOREVER: Final = 1e11
"""Unix seconds that are never reached."""

STEP: Final = SECOND // 10
"""Ticks by which the wall clock must run ahead of the boot clock between two turns to count as put forward.

Smaller differences come from ordinary clock adjustment.
"""

DELAY_PART: Final = 0.2
"""Part by which the automatic delay of a slot in memory may differ from the stored one."""

Place = Literal["ready", "waiting", "parked"]


class SlotClock:
    """Time of the turn, in the units of slots.

    Attributes:
        now: boot-clock ticks, rounded down: slots that may go at this time may go.
        begun: boot-clock ticks, rounded up: dispatches of this turn count from then on.
        stepped: ticks by which the wall clock has been put forward since the daemon started.
        stepped_at: when the last such step was seen.
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
        """Set the time of the next turn."""
        forward = ceil(((now.wall - self._wall) - (now.boot - self._boot)) * SECOND)
        if forward > STEP and self._wall:
            self.stepped += forward
            self.stepped_at = ceil(now.boot * SECOND)
        self._wall, self._boot = now.wall, now.boot
        self.now = int(now.boot * SECOND)
        self.begun = ceil(now.boot * SECOND)

    def from_wall(self, at: float) -> int:
        """Convert a time in unix seconds to ticks of the boot clock."""
        return ceil((at - self._wall + self._boot) * SECOND)

    def due_from_wall(self, at: float, window: int) -> int:
        """Return when a slot with this window may go that was to wait until ``at``, in unix seconds.

        If the wall clock was put forward after that was stored, the slot goes later by as much, but not later than its
        window after the step.
        """
        due = self.from_wall(at)
        return max(due, min(due + self.stepped, self.stepped_at + window)) if self.stepped else due

    def to_wall(self, at: int) -> float:
        """Convert a time on the boot clock to unix seconds; a little later rather than earlier."""
        return (at + 1) / SECOND - self._boot + self._wall


class Slot:
    """Slot in memory.

    Attributes:
        number: upper part of the places of its tasks.
        head: its best ready tasks.
        leases: number of its dispatched tasks.
        due: ticks when its next task is due by its pace.
        until: ticks before which nothing is dispatched whatever its pace: back-off and blocks.
        last: ticks when its last task was dispatched, or should be started.
        place: where it waits; ``mark`` is its mark there, 0 if none.
        entry: its entry in the stored order by best task; 0 if none.
        aside: number of tasks that stand aside in this turn and keep it in memory.
        read_tasks: number of tasks in its next read.
        kept_delay: its automatic delay as stored.
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
        """True if the slot has as many leases as it may have."""
        return self.leases >= self.pace.most

    @property
    def has_more(self) -> bool:
        """True if the slot has ready tasks."""
        return len(self.head) > 0 or self.is_dry

    @property
    def is_dry(self) -> bool:
        """True if the slot's next tasks are to be read."""
        return self.head.first() is None and self.head.is_partial

    @property
    def interval(self) -> int:
        """Ticks between tasks of the slot, on average."""
        return ceil(self.pace.interval * SECOND)

    @property
    def window(self) -> int:
        """Ticks after which earlier dispatches of the slot no longer matter."""
        ahead = AHEAD if self.pace.most > 1 else 0
        return self.interval + int(self.pace.tolerance * SECOND) + ahead

    def goes_at(self) -> int:
        """Return when the slot may dispatch its next task, in ticks."""
        at = self.due - int(self.pace.tolerance * SECOND)
        return at if at > self.until else self.until

    def looks_at(self) -> int:
        """Return when the slot is to be visited, in ticks: earlier if it may dispatch several tasks ahead."""
        at = self.goes_at()
        return max(self.until, at - AHEAD) if self.pace.most > 1 else at

    def forgotten_at(self) -> int:
        """Return the ticks after which no earlier dispatch or block has an effect."""
        return max(self.due, self.until)

    def begin(self, clock: SlotClock) -> int:
        """Dispatch a task of the slot; return the ticks until it may be started."""
        start = max(clock.begun, self.goes_at())
        self.due = max(self.due, start) + self.interval
        self.last = start
        self.leases += 1
        return start - clock.begun

    def began_at(self, start: int) -> None:
        """Record that a task of the slot began at ``start``, maybe later than its dispatch."""
        if start > self.last:
            self.last = start
            self.due = max(self.due, start + self.interval)

    def slow_down(self) -> None:
        """Apply an interval that may be longer now to the time after the last task, too."""
        if self.last:
            self.due = max(self.due, self.last + self.interval)

    def hurry(self, since: int) -> None:
        """Apply an interval that may be shorter now: the next task is due at most one window after ``since``."""
        self.due = min(self.due, since + self.window)

    @property
    def is_delay_old(self) -> bool:
        """True if the store does not have the slot's automatic delay."""
        return self.record.auto_delay != self.kept_delay

    @property
    def is_delay_wrong(self) -> bool:
        """True if the slot's automatic delay differs too much from the stored one."""
        return abs(self.record.auto_delay - self.kept_delay) > DELAY_PART * self.kept_delay

    def follow_clock(self, clock: SlotClock) -> bool:
        """Have the record end a block or back-off no earlier than memory does; return whether it has changed.

        Memory counts on the boot clock. If the wall clock was put forward, the time in the record comes too early.
        """
        if self.until <= clock.now:
            return False
        record, ends = self.record, clock.to_wall(self.until)
        if ends - max(record.blocked_until, record.backoff_until) <= STEP / SECOND:
            return False
        if record.blocked_until >= record.backoff_until:
            record.blocked_until = ends
        else:
            record.backoff_until = ends
        return True

    def wait_until(self, clock: SlotClock) -> None:
        """Take over the end of blocks and back-offs from the slot's record."""
        until = max(self.record.blocked_until, self.record.backoff_until)
        self.until = clock.from_wall(min(until, FOREVER)) if until else 0
