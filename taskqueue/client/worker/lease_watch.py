"""Leases of the runs of a worker: after its end a handler is told, then ended, then counted as hung.

    running ──lease ended──► overdue ──overtime──► told to end ──again, again──► hung
       └── taken away by the daemon ─────────────────┘

1. A lease ends by this worker's clock. ``task.lost`` is set, and the log shows the handler's stack.
2. The handler goes on for the overtime, because a late success may count. Then it is told to end, again and again.
3. A run that goes on for HANGS_AFTER overtimes after it was first told to end hangs: it is blocked in C, or swallows
   the exception.
4. A run whose task the daemon takes away before that, for example after an operator's cancel, is told to end at once,
   and then each TELL_PAUSE_SECONDS. It hangs as late as any other: its request may have a timeout of its own.
5. Hellos report all runs whose lease has ended.

There is one timer for all, at the earliest time of an action.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from typing import Final, NamedTuple

from msgspec import Struct

from taskqueue.client.fetcher.leases import InHand
from taskqueue.client.tasks.task import Task
from taskqueue.client.worker.interruptible import Interruptible
from taskqueue.client.worker.worker_log import Hanging, WorkerLog
from taskqueue.protocol.fetchers import Hung

OVERTIME_PART: Final = 0.1
"""Default of the overtime, as a part of the lease."""
OVERTIME_LEAST_SECONDS: Final = 1.0

ARRIVAL_SECONDS: Final = 1.0
"""Tolerance for a lease that the daemon ends slightly early: here it counts from the arrival of its task."""

HANGS_AFTER: Final = 3
"""Overtimes from the first time that a handler is told to end until it hangs: it may clean up, or swallow one by
mistake.
"""
TELL_PAUSE_SECONDS: Final = 1.0
"""Shortest time between two tells; the overtime if that is longer."""


class Run(Struct, eq=False):
    """A run of a handler.

    Attributes:
        task: task that it runs on.
        code: ends the run.
        began_at: time of its start by the loop's clock.
        next_at: time of the next action, by the loop's clock.
        is_over: its lease has ended, and that has been reported.
        is_lost: the daemon has ended its lease before its time: it has no overtime.
        hangs_at: time from which it hangs, by the loop's clock; inf: it has not been told to end.
        kept: number of its new tasks that were sent in parts.
        outcome: one of the outcomes that a WorkerLog counts.
        kept_lease: extends its lease; may be None.
    """

    task: Task
    code: Interruptible
    began_at: float
    next_at: float
    is_over: bool = False
    is_lost: bool = False
    hangs_at: float = inf
    kept: int = 0
    outcome: str = "failed"
    kept_lease: InHand | None = None


class Limits(NamedTuple):
    """Limits of the runs of a worker.

    Attributes:
        places: runs at once.
        overtime: seconds that a run has after its lease; None: OVERTIME_PART of it.
        max_hung: hung runs at which the worker gives up.
    """

    places: int
    overtime: float | None
    max_hung: int

    def overtime_of(self, task: Task) -> float:
        """Return the seconds that a run of the task has after its lease, if that ends by itself."""
        if self.overtime is not None:
            return self.overtime
        return max(OVERTIME_LEAST_SECONDS, task.timeout * OVERTIME_PART)


class LeaseWatch:
    """Watch over the leases of one worker's runs.

    Args:
        limits: limits of the worker.
        log: logs ended leases and hung runs.
        tell_hung: reports hung places to the daemon; called with None if there are none, and the end of the first
            lease.
        give_up: called with the hung runs when ``max_hung`` is reached.
    """

    def __init__(
        self,
        limits: Limits,
        log: WorkerLog,
        tell_hung: Callable[[Hung | None, float], None],
        give_up: Callable[[Hanging], None],
    ) -> None:
        self._limits = limits
        self._log = log
        self._tell_hung = tell_hung
        self._give_up = give_up
        self._loop = asyncio.get_running_loop()
        self._runs: dict[Task, Run] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = inf

    def begin(self, task: Task, running: asyncio.Task[None], now: float) -> Run:
        """Watch a run that begins now."""
        ends_at = task.lease_ends_at
        run = self._runs[task] = Run(task, Interruptible(running), now, ends_at)
        if ends_at < self._rings_at:
            self._ring_at(ends_at)
        return run

    def end(self, run: Run) -> None:
        """Forget a run that has ended; its place is free."""
        self._runs.pop(run.task, None)
        if run.is_over:
            self._tell()

    def lose(self, task: Task) -> None:
        """End the run of a task whose lease the daemon has ended, unless its time is over anyway."""
        now, run = self._loop.time(), self._runs.get(task)
        if run is None or run.is_over or now + ARRIVAL_SECONDS >= run.task.lease_ends_at:
            return
        self._log.taken_away(run.task)
        self._note_lost(run, now)
        self._interrupt(run, now)
        self._ring_at(run.next_at)

    def end_stale(self, run: Run) -> None:
        """Record that a part of a run's report was stale: the run ends itself now, and is told to if it goes on."""
        now = self._loop.time()
        self._note_lost(run, now)
        run.next_at = now + TELL_PAUSE_SECONDS
        self._ring_at(run.next_at)

    def is_over(self, task: Task) -> bool:
        """Return True if a handler runs the task although its lease has ended."""
        return task in self._runs and self._runs[task].is_over

    @property
    def is_running(self) -> bool:
        """True if there are runs. Usable from any thread, as ``blocking``."""
        return bool(self._runs)

    def blocking(self) -> list[Run]:
        """Return the run that occupies the event loop; all runs if code that one of them has started occupies it."""
        current, runs = asyncio.current_task(self._loop), list(self._runs.values())
        return [run for run in runs if run.code.is_in(current)] or runs

    def hangs_at(self, run: Run) -> float:
        """Return the time at which a run that goes on counts as hung, by the loop's clock."""
        return min(run.hangs_at, run.task.lease_ends_at + self._overtime(run) + self._patience(run))

    def interrupt(self, task: Task) -> None:
        """End a thread that runs the task, because the worker ends."""
        if task in self._runs and not self._runs[task].code.in_loop:
            self._runs[task].code.interrupt()

    def close(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()

    # ------------------------------------------------------------------------------------ looking

    def _look(self) -> None:
        self._timer, self._rings_at = None, inf
        now = self._loop.time()
        for run in tuple(self._runs.values()):
            if run.next_at <= now:
                self._look_at(run, now)
        self._tell()
        self._ring_at(min((run.next_at for run in self._runs.values()), default=inf))
        hung = sum(run.is_over and run.hangs_at <= now for run in self._runs.values())
        if hung >= self._limits.max_hung and (hanging := self._hanging()) is not None:
            self._give_up(hanging)

    def _look_at(self, run: Run, now: float) -> None:
        ends_at = run.task.lease_ends_at  # It may have been extended, and be in force again.
        if now < ends_at:
            run.is_over, run.next_at = False, ends_at
        elif now < ends_at + self._overtime(run):
            self._note_over(run, now)
            run.next_at = ends_at + self._overtime(run)
        else:
            self._note_over(run, now)
            self._interrupt(run, now)

    def _note_over(self, run: Run, now: float) -> None:
        if not run.is_over:
            run.is_over = True
            run.task.lost.set()
            self._log.overdue(run.task, now - run.began_at, self._overtime(run), run.code.stack())

    def _note_lost(self, run: Run, now: float) -> None:
        run.is_over, run.is_lost, run.task.lease_ends_at = True, True, now
        run.task.lost.set()

    def _interrupt(self, run: Run, now: float) -> None:
        # Not from its due time: after a pause of the process, the handler gets as long as without one.
        run.next_at = now + max(TELL_PAUSE_SECONDS, self._overtime(run))
        if run.hangs_at == inf:
            run.hangs_at = now + self._patience(run)
        run.code.interrupt()

    def _overtime(self, run: Run) -> float:
        return 0.0 if run.is_lost else self._limits.overtime_of(run.task)

    def _patience(self, run: Run) -> float:
        """Return the seconds from when a run is first told to end until it hangs."""
        return HANGS_AFTER * max(TELL_PAUSE_SECONDS, self._limits.overtime_of(run.task))

    # ------------------------------------------------------------------------------------ telling

    def _tell(self) -> None:
        hanging = self._hanging()
        self._log.hang(hanging)
        if hanging is None:
            self._tell_hung(None, 0.0)
            return
        task = hanging.task
        hung = Hung(places=hanging.places, seconds=0.0, project=task.project, taskid=task.taskid, url=task.url)
        self._tell_hung(hung, task.lease_ends_at)

    def _hanging(self) -> Hanging | None:
        over = [run for run in self._runs.values() if run.is_over]
        if not over:
            return None
        first = min(over, key=lambda run: run.task.lease_ends_at)
        return Hanging(len(over), self._limits.places, first.task, first.code.stack)

    def _ring_at(self, at: float) -> None:
        if at >= self._rings_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._rings_at = self._loop.call_at(at, self._look), at
