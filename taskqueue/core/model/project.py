"""Projects, each with its settings, bucket, queue and stored record; the table of all, and sums over them.

    running ──stop──► stopped      accepts tasks, dispatches nothing
     │ ▲ ▲ ◄─start──┘   ▲
     │ │ └─success─ checking ◄──┐  dispatches a few tasks after an automatic pause: see ``pause``
     │ └─resume──┐      │       │ pause_time
     └─pause─► paused ──┴───────┘  by an operator, for a time or until ``resume``, or automatically

``ProjectTable`` finds projects by name, by number and in order, and knows the memory of their overrides.
``GrandTotals`` are updated incrementally, so reading them costs nothing: each project's latest contribution is
remembered, and its gain is a subtraction.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from functools import partial
from math import inf
from operator import add, itemgetter, sub
from typing import Final, NamedTuple

from msgspec import Raw

from taskqueue.core.model.bucket import Bucket, SharedBucket
from taskqueue.core.model.flow import Flow
from taskqueue.core.model.history import Row
from taskqueue.core.model.now import Now
from taskqueue.core.model.pause import Pause
from taskqueue.core.model.records import ProjectRecord
from taskqueue.core.model.remaining import Limits, Work, estimate
from taskqueue.core.model.retention_keys import keeps_of, lows_of, old_at
from taskqueue.core.model.slot_records import LAST_TIME, TIME_BYTES, DivisionRecord
from taskqueue.core.model.slot_table import SlotTable
from taskqueue.core.model.task import BLOCKED, DELAYED, KEY_BYTES, NO_FLOOR, OVER, PROCESSING, READY
from taskqueue.core.model.task_queue import TaskQueue
from taskqueue.core.model.traps import SLOTS_MOST, Sampling
from taskqueue.core.model.waiters import Waiters
from taskqueue.core.model.windows import Counters, EventCounts
from taskqueue.errors import Rejected
from taskqueue.protocol.callers import Scope
from taskqueue.protocol.choices import ProjectState, RemainingReason
from taskqueue.protocol.fields import Boot, Setting, Wall
from taskqueue.protocol.projects import CronEntry, Remaining
from taskqueue.protocol.projects import Project as ProjectView
from taskqueue.protocol.values import Action, CronRecord, EventTotals, TaskCounts
from taskqueue.settings.environment import Environment, Hours
from taskqueue.settings.layer_size import memory_bytes
from taskqueue.settings.settings import Layer, Settings, as_layer, merge

_TRANSITIONS: Final[Mapping[tuple[Action, ProjectState], ProjectState]] = {
    ("pause", "running"): "paused",
    ("pause", "checking"): "paused",
    ("pause", "paused"): "paused",
    ("resume", "running"): "running",
    ("resume", "checking"): "running",
    ("resume", "paused"): "running",
    ("stop", "running"): "stopped",
    ("stop", "checking"): "stopped",
    ("stop", "paused"): "stopped",
    ("stop", "stopped"): "stopped",
    ("start", "running"): "running",
    ("start", "checking"): "running",
    ("start", "paused"): "running",
    ("start", "stopped"): "running",
}
"""New state by action and state; absent combinations are refused."""

ALWAYS: Final = Hours(True, inf)

DAY_SECONDS: Final = 86_400.0

SLOW_SECONDS: Final = 300.0
"""Seconds from an event about a slow task of a project to the next one, at least."""

ON_FINISHED: Final = "on_finished"
"""Default taskid of a project's ``on_finished`` task."""

ABOVE_ALL: Final = b"\xff" * KEY_BYTES
"""Lower bound of an order without entries, as stored."""

_of_over: Final = itemgetter(*OVER)


class Project:
    """Project with its state in memory.

    Attributes:
        number: first part of its tasks' keys in the store.
        layers: settings from the config; later layers win.
        totals: events since the project was created.
        save_at: when its counters are to be saved (boot-clock seconds); inf if they have not changed since.
        bursting: True while many attempts fail, after the event was emitted.
        slow: processing tasks of which it was noted that four fifths of their lease have passed.
        slow_until: boot-clock seconds until which no further event about such a task is emitted.
        growing: unix seconds of the last event about a slot that seems to grow without end, by slot name.
        sampling: choice of the new tasks that are sampled for that.
        has_limits: True if limits on tasks may refuse a new one.
        counts_slots: True if the tasks of some slots are limited.
        idle_since: its last dispatch, or when it got ready tasks if that was later (boot-clock seconds), as far as is
            known since the start.
        has_ready: True if it had ready tasks at the end of the last turn that changed it.
        hours: whether it is open now, by its active hours; to be computed again from ``hours.until`` on.
        fetch: its setting of that name, packed; None if unset.
        shared: its shared bucket; ``virtual`` is its virtual time in it.
        cleared, swept_to: see ``ProjectRecord``.
        linked: True if it has had edges.
        division: its division into slots; None if it has never had one.
        newest, importing: see ``ProjectRecord``.
        making: flows that are being checked or made, by number.
        keeps: retention in seconds of success, failed and cancelled; empty to keep them for ever.
        cron, ticks: record and next tick (unix seconds) of each cron entry.
        waiters: requests that wait for its end; ``early_waiters``: for the end of all but its retries.
        overrides_bytes: memory of its overrides.
    """

    __slots__ = (
        "armed", "bucket", "bursting", "cleared", "counters", "counts_slots", "cron", "division",
        "early_waiters", "fetch", "finished", "finisher", "growing", "has_limits", "has_ready", "holds",
        "hours", "idle_since", "importing", "keeps", "layers", "linked", "making", "name", "newest", "number",
        "overrides", "overrides_bytes", "pause", "queue", "sampling", "save_at", "settings", "shared", "slow",
        "slow_until", "state", "swept_to", "ticks", "totals", "virtual", "waiters",
    )  # fmt: skip

    def __init__(self, record: ProjectRecord, layers: Sequence[Layer], now: Boot) -> None:
        self.number = record.number
        self.name = record.name
        self.state: ProjectState = record.state
        self.overrides = dict(record.overrides)
        self.overrides_bytes = memory_bytes(self.overrides)
        self.layers = layers
        self.settings = merge(*layers, self.overrides)
        self.totals = EventCounts(record.totals)
        self.counters = Counters(record.totals)
        self.save_at = inf
        self.bursting = False
        self.slow = 0
        self.slow_until = 0.0
        bucket_at = Boot(min(record.bucket_at, now))
        self.bucket = Bucket(self.settings.rate, self.settings.burst, record.bucket_level, bucket_at)
        low = int.from_bytes(record.ready_low, "big"), int.from_bytes(record.delayed_low, "big")
        self.queue = TaskQueue(record.counts, record.unfinished, *low, lows_of(record), record.held_back)
        is_meant = self.settings.order == "newest"
        self.newest = record.newest if self.queue.counts[READY] else is_meant
        self.queue.sort_by(newest=is_meant if self.newest is None else self.newest)
        self.idle_since = now
        self.has_ready = self.queue.counts[READY] > 0
        self.pause = Pause(record.pause)
        self.hours = ALWAYS
        self.shared: SharedBucket | None = None
        self.virtual = 0.0
        self.cleared = record.cleared
        self.swept_to = record.swept_to
        self.linked = record.linked
        self.division = record.slots
        self.importing = record.importing
        self.making: dict[int, Flow] = {}
        self.armed = record.armed
        self.finished = record.finished
        self.holds = record.holds
        self.cron: dict[str, CronRecord] = record.cron
        self.ticks: dict[str, float] = {}
        self.waiters = Waiters()
        self.early_waiters = Waiters()
        self.finisher = _finisher(self.settings)
        self.counts_slots = self.has_limits = False
        self.note_limits()
        self.keeps = keeps_of(self.settings)
        self.growing = record.growing
        self.sampling = Sampling(self.settings.growing)
        self.fetch: Raw | None = None
        self._apply_pause_setting()

    # ------------------------------------------------------------------------------------ settings

    def apply(self, layers: Sequence[Layer], overrides: Mapping[str, Setting], now: Boot) -> None:
        """Apply other settings from now on; no task and no token is lost.

        Raises:
            Rejected: the settings are invalid; nothing has changed.
        """
        settings = merge(*layers, overrides)
        self.layers = layers
        self.overrides = dict(overrides)
        self.overrides_bytes = memory_bytes(self.overrides)
        self._use(settings, now)

    def _use(self, settings: Settings, now: Boot) -> None:
        self.settings = settings
        self.finisher = _finisher(settings)
        self.note_limits()
        self.keeps = keeps_of(settings)
        self.sampling = Sampling(settings.growing)
        self.bucket.change(settings.rate, settings.burst, now)
        self._apply_pause_setting()

    def note_limits(self) -> None:
        """Update whether the number of the project's tasks is limited, as a whole or by slots."""
        settings = self.settings
        by_operator = self.division is not None and self.division.is_counting
        slot = settings.slot
        by_pattern = any(each.max_tasks is not None for each in slot.patterns.values())
        self.counts_slots = slot.by != "none" and (slot.max_tasks != inf or by_pattern or by_operator)
        self.has_limits = self.counts_slots or settings.max_queue != inf or settings.max_tasks != inf

    def _apply_pause_setting(self) -> None:
        """End an automatic pause if the settings now switch automatic pauses off."""
        if not self.settings.fail_pause_num and self.paused_itself:
            self.set_running()

    # ------------------------------------------------------------------------------------ state

    def act(self, action: Action, until: float = 0.0) -> None:
        """Pause (until that time in unix seconds; 0 without an end), resume, stop or start.

        Raises:
            Rejected: the action is impossible in this state.
        """
        state = _TRANSITIONS.get((action, self.state))
        if state is None:
            reason = f'project "{self.name}" is {self.state}: start it before you {action} it'
            raise Rejected("state", reason)
        self.state = state
        self.pause.forget()
        self.pause.end_at(until)

    def can(self, action: Action) -> bool:
        """Return whether the action is possible in this state."""
        return self.importing is None and (action, self.state) in _TRANSITIONS

    @property
    def is_paused_for_good(self) -> bool:
        """True if an operator has paused the project until it is resumed."""
        return self.state == "paused" and not self.paused_itself and not self.pause.record.until

    @property
    def paused_itself(self) -> bool:
        """True if the project is in an automatic pause, or in the checks after one."""
        return self.state == "checking" or (self.state == "paused" and self.pause.record.check_at > 0)

    def pause_itself(self, now: Now, reason: str) -> None:
        """Begin an automatic pause: dispatch nothing until the next check."""
        self.state = "paused"
        self.pause.begin_wait(now.wall + self.settings.pause_time, reason)

    def cap_wait(self, now: Wall) -> bool:
        """Limit the pause to ``pause_time`` from now (unix seconds); return whether it was longer."""
        latest = now + self.settings.pause_time
        is_longer = self.pause.record.check_at > latest
        if is_longer:
            self.pause.record.check_at = latest
        return is_longer

    def begin_checks(self) -> None:
        """End the automatic pause, and check whether tasks still fail."""
        self.state = "checking"
        self.pause.begin_checks()

    def set_running(self) -> None:
        """End the pause and its checks."""
        self.state = "running"
        self.pause.forget()

    def check_whole(self) -> None:
        """Check that the project has no unfinished import.

        Raises:
            Rejected: it has one; the reason says how far it is, and what to do.
        """
        if self.importing is not None:
            raise Rejected("state", f'project: "{self.name}" is not whole yet: {self.pause.record.reason}')

    def note_brought(self, brought: int) -> None:
        """Record how many parts of the import are there; with the last one the project is whole, in its own state."""
        unfinished = self.importing
        if unfinished is None:
            return
        unfinished.brought = brought
        if brought < unfinished.parts:
            self.pause.begin_wait(
                0.0,
                f"{brought:,} of {unfinished.parts:,} parts of its import are there; repeat it with taskqueue project "
                f"import {self.name} FILE, or drop it with taskqueue project delete {self.name}",
            )
            return
        self.importing = None
        self.state, self.pause = unfinished.state, Pause(unfinished.pause)
        self._apply_pause_setting()

    def check_at(self) -> float:
        """Return when the checks begin (unix seconds); inf without an automatic pause."""
        return self.pause.record.check_at if self.state == "paused" and self.pause.record.check_at else inf

    def resumes_at(self) -> float:
        """Return when an operator's pause ends (unix seconds); inf if there is none, or none that ends by itself."""
        return self.pause.record.until or inf

    def shift_pause(self, step: float) -> bool:
        """Keep the remaining seconds of an operator's pause when the wall clock steps; return whether it has an end."""
        if self.pause.record.until:
            self.pause.end_at(self.pause.record.until + step)
        return self.pause.record.until > 0

    def room(self, now: Wall, environment: Environment) -> float:
        """Return how many tasks the project may dispatch at ``now`` (unix seconds), tokens aside; inf if unlimited."""
        if now >= self.hours.until:
            self.hours = environment.hours(self.settings.active, now)
        if not self.hours.open or self.state not in ("running", "checking"):
            return 0
        room = self.pause.room if self.state == "checking" else inf
        most = self.settings.max_processing
        return min(room, most - len(self.queue.processing))

    def note_dispatch(self, now: Boot) -> None:
        """Record that tasks of the project have been dispatched."""
        self.idle_since = now

    def note_ready(self, now: Boot) -> None:
        """Record whether the project has ready tasks, at the end of a turn that changed it."""
        has_ready = self.queue.counts[READY] > 0
        if has_ready != self.has_ready:
            self.has_ready, self.idle_since = has_ready, now

    def old_at(self) -> float:
        """Return when finished tasks are past their retention (unix seconds), or a little later; inf if never."""
        return min(map(old_at, _of_over(self.queue.over_low), self.keeps), default=inf)

    def count_slow(self, by: int) -> None:
        """Count that many more processing tasks of which four fifths of the lease have passed, or fewer."""
        self.slow += by

    def note_slow(self, now: Boot) -> bool:
        """Record that a processing task has become slow; return whether to emit an event, once in SLOW_SECONDS."""
        if now < self.slow_until:
            return False
        self.slow_until = now + SLOW_SECONDS
        return True

    def note_growing(self, slot: str, now: Wall) -> bool:
        """Record that a slot seems to grow without end; return whether to emit an event.

        An event is emitted once a day and slot, for at most SLOTS_MOST slots a day: they are in the project's record,
        which is written in every turn that changes the project.
        """
        told = {name: at for name, at in self.growing.items() if at <= now < at + DAY_SECONDS}
        if slot in told or len(told) >= SLOTS_MOST:
            return False
        self.growing = told | {slot: now}
        return True

    def is_held(self, now: Wall) -> bool:
        """Return whether a producer keeps the project open at ``now`` (unix seconds)."""
        return any(until > now for until in self.holds.values())

    def is_done(self, now: Wall) -> bool:
        """Return whether nothing keeps the project from being finished at ``now`` (unix seconds)."""
        return not self.queue.unfinished and not self.is_held(now) and not self.is_unrolling

    def is_done_but_retries(self, now: Wall) -> bool:
        """Return whether only retries keep the project from being finished at ``now`` (unix seconds)."""
        retries = self.queue.waiting_retries
        return retries == self.queue.unfinished and not self.is_held(now) and not self.is_unrolling

    def take_waiters(self, former: Project) -> None:
        """Take over the waiting requests of a project that this one replaces."""
        self.waiters, former.waiters = former.waiters, self.waiters
        self.early_waiters, former.early_waiters = former.early_waiters, self.early_waiters

    def next_wait_at(self) -> float:
        """Return when the first waiting request times out (boot-clock seconds); inf if none waits."""
        return min(self.waiters.next_at(), self.early_waiters.next_at())

    def note_flow(self, flow: Flow) -> None:
        """Record whether a flow of the project is being checked or made."""
        if flow.check is not None or flow.is_unrolling:
            self.making[flow.number] = flow
        else:
            self.making.pop(flow.number, None)

    def forget_flow(self, flow: Flow) -> None:
        """Remove a flow of the project that is gone."""
        self.making.pop(flow.number, None)

    @property
    def is_unrolling(self) -> bool:
        """True while a flow, or an import, is still to make tasks of the project."""
        return self.importing is not None or any(flow.is_unrolling for flow in self.making.values())

    @property
    def reserved(self) -> int:
        """Number of tasks that flows are still to make and that room is reserved for."""
        return sum(flow.reserved for flow in self.making.values())

    def arm(self) -> None:
        """Arm the finished event, for when the project's unfinished tasks, if any, have ended."""
        self.armed = self.armed or self.queue.unfinished > 0

    # ------------------------------------------------------------------------------------ values

    def record(self) -> ProjectRecord:
        """Return the record to store."""
        # Positional arguments: keywords take 0.25 µs more, in each turn that changes the project.
        queue = self.queue
        return ProjectRecord(
            self.number, self.name, self.state, self.overrides, TaskCounts(*queue.counts[1:]),
            EventTotals(*self.totals.row()),
            self.bucket.kept_level, self.bucket.kept_at,
            _key_bytes(queue.ready.low_key()), _key_bytes(queue.delayed.low_key()),
            self.pause.record, self.cleared, queue.unfinished, self.armed, self.finished, self.holds, self.cron,
            self.swept_to, queue.packed_low, self.linked,
            self.division if queue.slots is None else self._divided(queue.slots),
            self.growing, queue.waiting_retries, self.newest, self.importing,
        )  # fmt: skip

    def begin_division(self, by: str, number: int, taken_from: int = 0) -> DivisionRecord:
        """Begin a new division, with slot numbers from ``number`` on; see ``DivisionRecord`` for ``taken_from``."""
        is_counting = self.division is not None and self.division.is_counting
        self.division = DivisionRecord(
            by, number, number, is_moving=self.is_moving, taken_from=taken_from, is_counting=is_counting
        )
        return self.division

    @property
    def is_moving(self) -> bool:
        """True while ready tasks of former divisions are still to be moved."""
        return self.division is not None and self.division.is_moving

    def move_tasks(self, *, is_left: bool) -> None:
        """Set whether ready tasks of former divisions are still to be moved."""
        if self.division is not None:
            self.division.is_moving = is_left

    @property
    def is_sorting(self) -> bool:
        """True while ready tasks are still to be sorted anew, because the order has changed."""
        return self.newest is None

    def sort(self, *, is_left: bool) -> None:
        """Set whether ready tasks are still to be sorted anew."""
        self.newest = None if is_left else self.queue.newest

    def _divided(self, slots: SlotTable) -> DivisionRecord:
        """Return the project's present division."""
        division = self.division or self.begin_division(self.settings.slot.by, slots.division)
        division.next_slot = slots.next_number
        division.time_low = min(slots.entries.time_floor, LAST_TIME).to_bytes(TIME_BYTES, "big")
        return division

    def anew(self, record: ProjectRecord, number: int, now: Now) -> Project:
        """Make a project of another number with the same name, settings, state and pace, and without tasks."""
        fresh = ProjectRecord(
            number=number,
            name=record.name,
            state=record.state,
            overrides=record.overrides,
            bucket_level=record.bucket_level,
            bucket_at=record.bucket_at,
            pause=record.pause,
        )
        return Project(fresh, self.layers, now.boot)

    def remaining(self, now: Now, environment: Environment) -> Remaining:
        """Estimate the project's remaining work and time."""
        counts, held_back = self.queue.counts, self.queue.waiting_retries
        runnable, later = counts[READY] + counts[PROCESSING], counts[DELAYED] - (held_back or 0)
        work = Work(runnable + counts[BLOCKED], runnable, self.queue.unfinished, held_back, later)
        rate = min(self.settings.rate, inf if self.shared is None else self.shared.bucket.rate)
        hours = partial(environment.hours, self.settings.active)
        # One retry uses up one step; a task with more retries of its own may wait longer.
        reached = self.settings.retry_delay[: max(1, self.settings.retries)]
        limits = Limits(self._stands(rate, hours(now.wall)), rate, max(reached))
        return estimate(work, limits, *self.counters.recent(now.wall), now.wall, hours)

    def _stands(self, rate: float, hours: Hours) -> RemainingReason:
        """Return why the project dispatches nothing; empty if it does."""
        if self.state == "stopped":
            return "stopped"
        if self.state != "running":
            return "paused"
        if not hours.open:
            return "out-of-hours"
        return "" if rate else "no-rate"

    def view(self, now: Now, environment: Environment) -> ProjectView:
        """Return the project as replies show it."""
        return ProjectView(
            name=self.name,
            state=self.state,
            counts=TaskCounts(*self.queue.counts[1:]),
            totals=EventTotals(*self.totals.row()),
            settings=as_layer(self.settings),
            overrides=self.overrides,
            tokens=self.bucket.level_at(now.boot),
            reason=self.pause.record.reason,
            check_at=self.pause.record.check_at,
            paused_until=self.pause.record.until,
            unfinished=self.queue.unfinished,
            finished=self.finished,
            held_by=sum(until > now.wall for until in self.holds.values()),
            cron=[self._cron_view(entry) for entry in self.settings.cron],
            shared=self.shared.view(now.boot) if self.shared is not None else None,
            remaining=self.remaining(now, environment),
        )

    def _cron_view(self, entry: str) -> CronEntry:
        record = self.cron[entry]
        next_at = self.ticks.get(entry, inf)
        last_at = record.last_at if record.ran or record.skipped else 0.0
        next_at = 0.0 if next_at == inf else next_at
        return CronEntry(entry, next_at, last_at, record.ran, record.skipped, len(record.waiting), record.problem)


def new_record(number: int, name: str, settings: Settings, now: Boot) -> ProjectRecord:
    """Make the record of a new project at ``now`` (boot-clock seconds): running, with a full bucket."""
    return ProjectRecord(number=number, name=name, bucket_level=settings.burst, bucket_at=now)


def _finisher(settings: Settings) -> str:
    """Return the taskid of the project's ``on_finished`` task; empty if there is none."""
    return (settings.on_finished.taskid or ON_FINISHED) if settings.on_finished is not None else ""


def _key_bytes(key: int) -> bytes:
    return ABOVE_ALL if key >= NO_FLOOR else key.to_bytes(KEY_BYTES, "big")


REACHES_MOST: Final = 32
"""Scopes whose projects are remembered; then it begins anew. With 10,000 projects each takes up to 120 KB."""


class Reach(NamedTuple):
    """Projects in a scope.

    Attributes:
        names: their names, sorted.
        fewer: numbers of these projects, or of all others if those are fewer.
        are_own: True if ``fewer`` has these projects.
    """

    names: list[str]
    fewer: list[int]
    are_own: bool


class ProjectTable:
    """Table of all projects.

    Attributes:
        by_name, by_number, names: read-only for others; ``names`` is sorted.
        overrides_bytes: memory of all overrides.
        next_number: number of the next new project.
    """

    __slots__ = ("_reaches", "by_name", "by_number", "names", "next_number", "overrides_bytes")

    def __init__(self, next_number: int) -> None:
        self.by_name: dict[str, Project] = {}
        self.by_number: dict[int, Project] = {}
        self.names: list[str] = []
        self.overrides_bytes = 0
        self.next_number = next_number
        self._reaches: dict[tuple[str, ...], Reach] = {}

    def named(self, name: str) -> Project:
        """Find the project of that name.

        Raises:
            Rejected: there is none.
        """
        project = self.by_name.get(name)
        if project is None:
            hint = f"make it with: taskqueue project start {name}"
            raise Rejected("unknown-project", f'project: "{name}" is unknown; {hint}')
        return project

    def within(self, scope: Scope | None) -> list[str]:
        """Return the sorted names of the projects in a scope; None: of all."""
        return self.names if scope is None else self.reach(scope).names

    def reach(self, scope: Scope) -> Reach:
        """Return the projects in a scope: remembered until a project is added or removed, else a pass over all."""
        reach = self._reaches.get(scope.patterns)
        if reach is None:
            if len(self._reaches) >= REACHES_MOST:
                self._reaches.clear()
            reach = self._reaches[scope.patterns] = self._reach(scope)
        return reach

    def _reach(self, scope: Scope) -> Reach:
        names = scope.among(self.names)
        own = [self.by_name[name].number for name in names]
        if 2 * len(own) <= len(self.names):
            return Reach(names, own, True)
        others = dict.fromkeys(self.by_number)
        for number in own:
            del others[number]
        return Reach(names, list(others), False)

    def in_group(self, group: str) -> list[Project]:
        """Return the projects of a group, sorted by name."""
        return [self.by_name[name] for name in self.names if self.by_name[name].settings.group == group]

    def add(self, project: Project) -> None:
        """Add a project."""
        self.by_name[project.name] = project
        self.by_number[project.number] = project
        self.overrides_bytes += project.overrides_bytes
        insort(self.names, project.name)
        self._reaches.clear()

    def remove(self, project: Project) -> None:
        """Remove a project."""
        del self.by_name[project.name]
        del self.by_number[project.number]
        self.overrides_bytes -= project.overrides_bytes
        del self.names[bisect_left(self.names, project.name)]
        self._reaches.clear()

    def note_overrides(self, before: int, project: Project) -> None:
        """Update the sum after a change of a project's overrides, which took ``before`` bytes."""
        self.overrides_bytes += project.overrides_bytes - before

    def take_number(self) -> int:
        """Take the number of a new project."""
        self.next_number += 1
        return self.next_number - 1


STATES: Final = len(TaskCounts.__struct_fields__)

SUM_MOST: Final = 2**63 - 1
"""Largest sum of totals that is shown: no message has a larger number, but stores may have totals that add up to one.
"""


class GrandTotals:
    """Sums over all projects."""

    __slots__ = ("_deleted", "_parts", "_row")

    def __init__(self) -> None:
        self._row = [0] * (STATES + len(EventTotals.__struct_fields__))
        self._parts: dict[int, tuple[int, ...]] = {}
        self._deleted = [0] * len(EventTotals.__struct_fields__)

    def note(self, project: Project, totals: Row) -> None:
        """Update the contribution of a project, with its totals."""
        part = (*project.queue.counts[1:], *totals)
        before = self._parts.get(project.number)
        if part != before:
            gained = part if before is None else map(sub, part, before)
            self._row = list(map(add, self._row, gained))
            self._parts[project.number] = part

    def remove(self, project: Project) -> None:
        """Remove a deleted project."""
        part = self._parts.pop(project.number, None)
        if part is not None:
            self._row = list(map(sub, self._row, part))
            self._deleted = list(map(add, self._deleted, part[STATES:]))

    def bring_back(self, totals: Row) -> None:
        """Leave out of ``events`` the totals that a project has had from the start, because it was imported."""
        self._deleted = list(map(sub, self._deleted, totals))

    def counts(self) -> TaskCounts:
        """Return tasks by state."""
        return TaskCounts(*self._row[:STATES])

    def totals(self) -> EventTotals:
        """Return events since the projects were created, of each kind at most SUM_MOST."""
        return _as_totals(self._row)

    def within(self, reach: Reach) -> tuple[TaskCounts, EventTotals]:
        """Return ``counts`` and ``totals`` of these projects; costs a pass over them, or over all others if fewer."""
        parts = [part for number in reach.fewer if (part := self._parts.get(number)) is not None]
        row = [sum(column) for column in zip(*parts, strict=True)] or [0] * len(self._row)
        row = row if reach.are_own else list(map(sub, self._row, row))
        return TaskCounts(*row[:STATES]), _as_totals(row)

    def events(self) -> Row:
        """Return ``totals`` with those of projects deleted since the start; only differences of two have a meaning."""
        return tuple(map(add, self._row[STATES:], self._deleted))


def _as_totals(row: Sequence[int]) -> EventTotals:
    return EventTotals(*[min(each, SUM_MOST) for each in row[STATES:]])
