"""Plain records of the naive model.

Times are seconds since the world began; ``at``, ``crawled_at`` and the like on the wall clock, deadlines and buckets
on the boot clock.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf
from typing import Any, NamedTuple

from taskqueue.protocol.values import EventTotals, NewTask, TaskFilter

OVER = ("success", "failed", "cancelled")


@dataclass
class Lease:
    """A lease.

    Attributes:
        kept: deadline as stored, which is not written anew when a start has moved it.
        slow_at: when four fifths of it will have passed; inf once that was noted.
        place: index among all dispatches.
    """

    session: str
    number: int
    deadline: float
    selected_at: float
    kept: float
    place: int
    deferred: NewTask | None = None
    check: int = 0
    slow_at: float = 0.0

    def __post_init__(self) -> None:
        self.slow_at = self.deadline - 0.2 * (self.deadline - self.selected_at)

    def renew(self, now: float, deadline: float) -> None:
        """Move the deadline, with the time from now on as the whole of the lease."""
        self.deadline, self.slow_at = deadline, deadline - 0.2 * (deadline - now)


class Attempt(NamedTuple):
    """End of an attempt: outcome and time."""

    at: float
    outcome: str
    seconds: float
    error: str


@dataclass
class Task:
    """Task; ``at`` is when it is due (delayed), or ended (finished)."""

    new: NewTask
    seq: int
    state: str = "ready"
    priority: int = 0
    at: float = 0.0
    retried: int = 0
    itag: str = ""
    job: str = ""
    crawled_at: float = -inf
    held_back: bool = False
    timed_out: bool = False
    token: int = 0
    lease: Lease | None = None
    fresh: bool = False
    depth: int = 0
    apart: bool = False
    history: list[Attempt] = field(default_factory=list)
    bare: bool = False
    crashes: int = 0
    put_off: int = 0
    newest: bool = False

    @property
    def order(self) -> tuple[int, int]:
        return -self.priority, -self.seq if self.newest else self.seq

    @property
    def is_live(self) -> bool:
        return self.state not in OVER

    @property
    def place(self) -> tuple[float, int]:
        """Return its place in the list of its state."""
        if self.state == "ready":
            return self.order
        return (0, self.seq) if self.state == "processing" else (self.at, self.seq)

    def end(self, state: str, at: float) -> None:
        self.state, self.at, self.lease = state, at, None
        self.put_off = 0


@dataclass
class Bucket:
    """Tokens, gained step by step."""

    rate: float
    burst: float
    level: Fraction
    at: float

    def fill(self, now: float) -> None:
        if now <= self.at:
            return
        if self.rate == inf:
            self.level = Fraction(self.burst)
        else:
            gained = Fraction(self.rate) * (Fraction(now) - Fraction(self.at))
            self.level = min(Fraction(self.burst), self.level + gained)
        self.at = now

    def change(self, now: float, rate: float, burst: float) -> None:
        """Set another pace from now on."""
        self.fill(now)
        self.rate, self.burst = rate, burst
        self.level = min(self.level, Fraction(burst))

    def has_token(self, now: float) -> bool:
        self.fill(now)
        return self.rate > 0 and (self.rate == inf or self.level >= 1)

    def take(self) -> None:
        if self.rate < inf:
            self.level -= 1

    def token_at(self) -> float:
        if self.rate == 0:
            return inf
        return self.at + float(max(Fraction(0), 1 - self.level) / Fraction(self.rate)) if self.rate < inf else 0.0


@dataclass
class CronEntry:
    """Cron entry: its next tick, its last tick, and the taskid that it pushed last."""

    settings: dict[str, Any]
    next_at: float
    last_at: float
    taskid: str = ""
    ran: int = 0
    skipped: int = 0


@dataclass
class Failures:
    """Failed attempts of a project, as far as they were counted by periods of ten seconds.

    Between two turns in which something of the project was counted, as many periods pass as on the wall clock, and none
    if it was put back, so that the past keeps its age.

    Attributes:
        counted: totals up to which they were counted.
        wall_period: period of the wall clock in which something was counted last.
        period: that period, as periods have passed for the project.
        periods: of each failed attempt, the period.
    """

    counted: EventTotals = field(default_factory=EventTotals)
    wall_period: int = 0
    period: int = 0
    periods: list[int] = field(default_factory=list)

    def count(self, totals: EventTotals, wall_period: int) -> int:
        """Count up to these totals, and let time pass if they are others; return how many more attempts have failed."""
        before, self.counted = self.counted, copy(totals)
        if totals != before:
            self.period += max(0, wall_period - self.wall_period)
            self.wall_period = wall_period
        return totals.failed + totals.retried - before.failed - before.retried

    def recent(self) -> int:
        """Return how many have failed in five minutes: in this period and the 29 before it."""
        return sum(period > self.period - 30 for period in self.periods)


@dataclass
class Project:
    """Project.

    ``phase`` and ``failed_checks`` are those of its checks. ``ghosts`` are tasks (taskid: seq) that ``clear`` has
    dropped and that are not swept up yet; ``cleared`` is the number of that ``clear``, ``swept_to`` the progress of the
    sweep. ``saved`` are the failures that the store has; ``bursting``: an event has reported that there are many;
    ``slow_until``: until then no further slow task is an event.
    """

    bucket: Bucket
    state: str = "running"
    overrides: dict[str, Any] = field(default_factory=dict)
    tasks: dict[str, Task] = field(default_factory=dict)
    totals: EventTotals = field(default_factory=EventTotals)
    failures: int = 0
    check_at: float | None = None
    until: float | None = None
    phase: int = 0
    failed_checks: int = 0
    neutral_checks: int = 0
    armed: bool = False
    finished: int = 0
    holds: dict[str, float] = field(default_factory=dict)
    entries: dict[str, CronEntry] = field(default_factory=dict)
    ghosts: dict[str, int] = field(default_factory=dict)
    cleared: int | None = None
    is_sorting: bool = False
    swept_to: str = ""
    failed: Failures = field(default_factory=Failures)
    saved: Failures | None = None
    bursting: bool = False
    slow_until: float = -inf

    def in_state(self, *states: str) -> list[Task]:
        return [task for task in self.tasks.values() if task.state in states]

    @property
    def live(self) -> list[Task]:
        return [task for task in self.tasks.values() if task.is_live]

    @property
    def unfinished(self) -> int:
        return sum(not task.apart for task in self.live)

    @property
    def paused_itself(self) -> bool:
        return self.state == "checking" or (self.state == "paused" and self.check_at is not None)

    @property
    def checks_out(self) -> int:
        return sum(task.lease is not None and task.lease.check == self.phase for task in self.tasks.values())

    def forget_failures(self) -> None:
        self.failures = self.failed_checks = self.neutral_checks = 0
        self.check_at = self.until = None
        self.phase += 1

    def stored(self) -> list[str]:
        """Return all tasks with records in the store, in the order of operations."""
        return sorted([*self.tasks, *(taskid for taskid in self.ghosts if taskid not in self.tasks)])


@dataclass
class Session:
    """Fetcher, as far as it has been heard."""

    capacity: int = 0
    projects: list[str] | None = None
    heard_at: float = 0.0
    number: int = 0
    slots: int = 1
    priority: int = 0
    ended: dict[int, int] = field(default_factory=dict)
    given_up: int = 0
    rest_until: float = 0.0
    rest_seconds: float = 0.0

    def hand_back(self, now: float) -> None:
        """Record a task handed back; a fetcher that has not lowered its capacity before rests."""
        if self.given_up:
            self.given_up -= 1
            return
        if not self.capacity:
            return
        self.rest_seconds = min(max(0.125, 2 * self.rest_seconds), 10.0)
        self.rest_until = now + self.rest_seconds


class Row(NamedTuple):
    """Task as it was before an operation changed it, and the token by which an undo knows that nothing else has."""

    project: Project
    taskid: str
    was: Task
    token: int


@dataclass
class Operation:
    """Bulk operation, or the undo of one; ``rows`` are those that can be undone, or are still to be."""

    id: int
    action: str
    projects: list[Project]
    filter: TaskFilter
    priority: int
    at: float
    dry_run: bool
    bound: int
    after: str = ""
    seen: int = 0
    matched: int = 0
    ended: bool = False
    rows: list[Row] = field(default_factory=list)
    undoes: Operation | None = None
