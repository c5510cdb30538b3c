"""Tasks of one project in memory: the heads of ready and delayed, and all processing tasks.

Every change of a task's state goes through here, so that the task is in exactly one place, is counted there, and is
among the changes of the turn, which are passed in:

    put ──► ready | delayed        below the floor: in memory; from it on: only in the store
        └─► blocked                never in memory
              in a project with slots, ready tasks lie slot by slot: see ``slot_queue``
    lease ──► processing           always in memory
    finish ──► finished            never in memory
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from operator import itemgetter
from typing import Final

from taskqueue.core.model.changes import Changes
from taskqueue.core.model.heads import Head, Processing
from taskqueue.core.model.lease import Lease
from taskqueue.core.model.retention_keys import packed_lows
from taskqueue.core.model.slot_queue import SlotQueue
from taskqueue.core.model.slot_table import SlotTable
from taskqueue.core.model.task import (
    ATTEMPTS_KEPT,
    BLOCKED,
    DELAYED,
    LIVE,
    NO_FLOOR,
    PROCESSING,
    READY,
    SEQ_MASK,
    SLOT_SHIFT,
    STATE_NAMES,
    STATES,
    SUCCESS,
    Task,
    is_retry,
    key_time,
    ready_key,
    time_key,
)
from taskqueue.errors import Corrupt
from taskqueue.protocol.fields import Boot, Token, Wall
from taskqueue.protocol.values import Attempt, TaskCounts

_of_live: Final = itemgetter(*sorted(LIVE))


class TaskQueue:
    """Tasks of one project.

    Attributes:
        tasks: tasks in memory, by taskid.
        counts: number of tasks by state, in memory or not.
        unfinished: number of live tasks that keep the project from being finished: those that are not ``apart``.
        held_back: number of delayed tasks that wait for a retry, among keys below ``counted_to``.
        counted_to: NO_FLOOR unless the store is from before these were counted: see ``retry_count``.
        over_low: lower bounds of the keys in the orders of finished tasks, by state; read-only for others.
        packed_low: these bounds as stored in the project's record.
        ready: ready tasks; of all ``slots`` in a project that has some.
        newest: True if the last pushed task becomes the first ready one of its priority.
    """

    __slots__ = (
        "counted_to", "counts", "delayed", "held_back", "newest", "over_low", "packed_low", "processing", "ready",
        "slots", "tasks", "unfinished",
    )  # fmt: skip

    def __init__(
        self,
        counts: TaskCounts,
        unfinished: int,
        ready_low: int,
        delayed_low: int,
        over_low: list[int],
        held_back: int | None = None,
    ) -> None:
        self.tasks: dict[str, Task] = {}
        self.unfinished = unfinished
        self.counts = [0, *(getattr(counts, STATE_NAMES[state]) for state in STATES)]
        self.ready: Head | SlotQueue = Head(ready_low if counts.ready else NO_FLOOR)
        self.slots: SlotTable | None = None
        self.newest = False
        self.delayed = Head(delayed_low if counts.delayed else NO_FLOOR)
        self.processing = Processing()
        self.over_low = over_low
        self.packed_low = packed_lows(over_low)
        self.held_back = held_back or 0
        self.counted_to = 0 if held_back is None and counts.delayed else NO_FLOOR

    def set_over_low(self, state: int, key: int) -> None:
        """Set the lower bound of the keys of a finished state."""
        self.over_low[state] = key
        self.packed_low = packed_lows(self.over_low)

    @property
    def live(self) -> int:
        """Number of live tasks."""
        return sum(_of_live(self.counts))

    @property
    def known(self) -> int:
        """Number of tasks, live or finished."""
        return sum(self.counts)

    def due_at(self) -> float:
        """Return when the first delayed task in memory is due, in unix seconds; inf if there is none."""
        first = self.delayed.first()
        return inf if first is None else key_time(first.key)

    def first_due(self, now: Wall) -> Task | None:
        """Return the first delayed task if it is due at ``now`` (unix seconds); else None."""
        first = self.delayed.first()
        return first if first is not None and key_time(first.key) <= now else None

    def is_behind(self, now: Wall) -> bool:
        """Return whether a task may be due at ``now`` (unix seconds) and still delayed, in memory or in the store."""
        return self.counts[DELAYED] > 0 and key_time(self.delayed.low_key()) <= now

    def put_ready(self, changes: Changes, task: Task) -> None:
        """Make the task ready."""
        if task.state:
            self._leave(changes, task)
        task.state = READY
        task.key = ready_key(task.priority, task.seq)
        if self.newest:
            task.key ^= SEQ_MASK
        if task.slot:
            self._place_in_slot(task)
        task.exetime = 0.0
        self._enter(changes, task, self.ready)

    def put_delayed(self, changes: Changes, task: Task, until: float) -> None:
        """Delay the task until ``until`` (unix seconds)."""
        if task.state:
            self._leave(changes, task)
        task.state = DELAYED
        task.key = time_key(until, task.seq)
        task.exetime = until
        self._count_delayed(task, 1)
        self._enter(changes, task, self.delayed)

    def put_blocked(self, changes: Changes, task: Task, until: float) -> None:
        """Make the task wait for its parents, and then until ``until`` (unix seconds; 0 for no longer)."""
        if task.state:
            self._leave(changes, task)
        task.state = BLOCKED
        task.key = task.seq
        task.exetime = until
        self.counts[BLOCKED] += 1
        if not task.apart:
            self.unfinished += 1
        changes.touch(task)
        changes.left(task)

    def put(self, changes: Changes, task: Task, until: float) -> None:
        """Make the task wait for its parents, if it must, and then until ``until`` (unix seconds; 0 for no longer)."""
        if task.links is not None and task.links.missing:
            self.put_blocked(changes, task, until)
        elif until:
            self.put_delayed(changes, task, until)
        else:
            self.put_ready(changes, task)

    def withdraw(self, changes: Changes, task: Task) -> None:
        """Remove the task from its order before a change that affects its key, or how it is counted."""
        if task.state:
            self._leave(changes, task)
        task.state = 0

    def set_apart(self, task: Task) -> None:
        """Let the project finish while this live task goes on."""
        if not task.apart:
            self.unfinished -= 1
            if task.state == DELAYED:
                self._count_delayed(task, -1)
            task.apart = True

    def lease(self, changes: Changes, task: Task, token: Token, lease: Lease) -> float:
        """Lease a task, which must be the first ready one; return the seconds until it may be started."""
        self.ready.pop()
        wait = 0.0
        if task.slot and self.slots is not None:
            wait = self.slots.lend(task.slot)
            lease.put_off(wait)
        self.counts[READY] -= 1
        self.counts[PROCESSING] += 1
        task.state = PROCESSING
        task.key = task.seq
        task.token = token
        task.lease = lease
        # Tasks of a job are counted by their records: see ``count_job``.
        task.unlisted = not task.kept_state and task.links is None and not task.job
        self.processing.add(task, lease.slow_at)
        changes.touch(task)
        return wait

    def restore(self, task: Task, lease: Lease) -> None:
        """Add a processing task loaded from the store."""
        self.tasks[task.taskid] = task
        task.lease = lease
        self.processing.add(task, lease.slow_at)
        if self.slots is not None:
            self.slots.restore_lease(task.slot)

    def list_leases(self, changes: Changes) -> None:
        """Write records of all processing tasks by taskid, too."""
        for task in self.processing.leased.values():
            if task.unlisted:
                task.unlisted = False
                changes.touch(task)

    def extend(self, changes: Changes, task: Task, now: Boot, deadline: Boot) -> None:
        """Move the deadline (boot-clock seconds) of the task's lease."""
        if task.lease is None:
            raise Corrupt(f"task {task.taskid} is extended but not leased")
        task.lease.renew(now, deadline)
        self.processing.look_at(task, task.lease.slow_at)
        changes.touch(task)

    def note_slow(self, changes: Changes, task: Task) -> None:
        """Record that four fifths of the task's lease have passed; the next time to look at it is its deadline."""
        if task.lease is None:
            raise Corrupt(f"task {task.taskid} is slow but not leased")
        task.lease.note_slow()
        self.processing.look_at(task, task.lease.deadline)
        # Its attempts change while it runs, which its record by taskid must show.
        task.unlisted = False
        changes.touch(task)

    def succeed(self, changes: Changes, task: Task, attempt: Attempt) -> None:
        """End the task with this success."""
        self.finish(changes, task, SUCCESS, attempt.at)
        task.ended = attempt
        task.attempts = (task.attempts + 1) % ATTEMPTS_KEPT

    def finish(self, changes: Changes, task: Task, state: int, at: float) -> None:
        """End the task as ``state`` at ``at`` (unix seconds)."""
        self._leave(changes, task)
        task.state = state
        task.key = time_key(at, task.seq)
        task.exetime = 0.0
        if task.put_off:
            task.note_put_off(0)
        self.counts[state] += 1
        if task.key < self.over_low[state]:
            self.set_over_low(state, task.key)
        if task.links is not None:
            changes.note_end(task, "succeeded" if state == SUCCESS else "failed")
        changes.touch(task)
        changes.left(task)

    def take_finished(self, changes: Changes, task: Task, state: int, at: float) -> None:
        """Take in a task that is in no order, as ended in ``state`` at ``at`` (unix seconds)."""
        task.state = state
        task.key = time_key(at, task.seq)
        self.counts[state] += 1
        changes.note_end(task, "succeeded" if state == SUCCESS else "failed")
        if task.bare:
            changes.touch_links(task)
        else:
            task.exetime = 0.0
            if task.key < self.over_low[state]:
                self.set_over_low(state, task.key)
            changes.touch(task)
        changes.left(task)

    def reprioritise(self, changes: Changes, task: Task, priority: int) -> None:
        """Change the priority of a waiting task; it keeps its seq."""
        if task.state == READY:
            self.withdraw(changes, task)
            task.priority = priority
            self.put_ready(changes, task)
            return
        task.priority = priority
        changes.touch(task)

    def clear(self) -> None:
        """Drop all live tasks from memory and from the counts."""
        self.tasks.clear()
        self.unfinished = self.held_back = 0
        self.counted_to = NO_FLOOR
        for state in sorted(LIVE):
            self.counts[state] = 0
        if isinstance(self.ready, SlotQueue):
            self.ready.clear()
        else:
            self.ready = Head()
        self.delayed = Head()
        self.processing = Processing()

    def divide(self, changes: Changes, slots: SlotTable | None) -> None:
        """Put ready tasks into these slots, or into none, from now on; those in memory leave it."""
        for task in [task for task in self.tasks.values() if task.state == READY]:
            del self.tasks[task.taskid]
            changes.left(task)
        self.slots = slots
        in_store = 0 if self.counts[READY] else NO_FLOOR
        self.ready = Head(in_store) if slots is None else SlotQueue(self.tasks, slots)

    def sort_by(self, *, newest: bool) -> None:
        """Put tasks that become ready from now on first, or behind their equals."""
        self.newest = newest

    def stand_aside(self, task: Task) -> None:
        """Take out the first ready task, until ``come_back``, so that the next one has its turn."""
        if isinstance(self.ready, SlotQueue):
            self.ready.stand_aside(task)
        else:
            self.ready.remove(task)

    def come_back(self, changes: Changes, tasks: Iterable[Task]) -> None:
        """Make the tasks that stood aside ready again."""
        ready = self.ready
        for task in tasks:
            if not (ready.come_back(task) if isinstance(ready, SlotQueue) else ready.add(task)):
                del self.tasks[task.taskid]
                changes.left(task)

    def head(self, state: int) -> Head | SlotQueue:
        """Return the head of ready or delayed."""
        return self.ready if state == READY else self.delayed

    def trim(self, state: int, max_tasks: int, max_bytes: int) -> None:
        """Keep a head within its bounds."""
        head = self.head(state)
        while dropped := head.trim(max_tasks, max_bytes):
            for task in dropped:
                del self.tasks[task.taskid]

    def refill(self, state: int, tasks: list[Task], following: int) -> None:
        """Add the next stored entries to a head; ``following`` is the key of the one after them, or NO_FLOOR."""
        head = self.head(state)
        if isinstance(head, SlotQueue):
            raise Corrupt("ready tasks of a divided project are read slot by slot")
        for task in tasks:
            self.tasks[task.taskid] = task
        head.refill(tasks, end=following == NO_FLOOR)
        if state == DELAYED:
            head.floor = following  # not lower: tasks that are only in the store would count as due too early

    @property
    def waiting_retries(self) -> int | None:
        """Number of live tasks that wait for a retry; None while they are being counted."""
        return self.held_back if self.counted_to == NO_FLOOR else None

    def count_anew(self) -> None:
        """Start counting the tasks that wait for a retry anew."""
        self.held_back, self.counted_to = 0, 0 if self.counts[DELAYED] else NO_FLOOR

    def count_page(self, tasks: Iterable[Task], following: int) -> None:
        """Count the next delayed tasks, from the store and memory; see ``refill`` for ``following``."""
        self.held_back += sum(map(is_retry, tasks))
        self.counted_to = following

    def _count_delayed(self, task: Task, by: int) -> None:
        if task.held_back and not task.apart and task.key < self.counted_to:
            self.held_back += by

    def _leave(self, changes: Changes, task: Task) -> None:
        """Remove the task from its order, in memory or not."""
        state = task.state
        self.counts[state] -= 1
        if state in LIVE and not task.apart:
            self.unfinished -= 1
        if state == READY:
            self.ready.remove(task)
        elif state == DELAYED:
            self.delayed.remove(task)
            self._count_delayed(task, -1)
        elif state == PROCESSING:
            self.processing.remove(task)
            task.lease = None
            if task.slot and self.slots is not None:
                self.slots.give_back(task.slot)
        elif task.ended is not None:
            changes.keep_attempt(task, task.attempts - 1, task.ended)
            task.ended = None
        self.tasks.pop(task.taskid, None)

    def _place_in_slot(self, task: Task) -> None:
        """Set the slot in the key of a ready task; a task of a former division stays below all slots, to be moved."""
        if self.slots is None:
            task.enter_slot(0)
        elif task.slot >= self.slots.division:
            task.key |= task.slot << SLOT_SHIFT

    def _enter(self, changes: Changes, task: Task, order: Head | SlotQueue) -> None:
        self.counts[task.state] += 1
        if not task.apart:
            self.unfinished += 1
        changes.touch(task)
        if order.add(task):
            self.tasks[task.taskid] = task
        else:
            changes.left(task)
