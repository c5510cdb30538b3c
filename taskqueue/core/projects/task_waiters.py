"""Who waits for the end of which task. An entry lasts as long as somebody waits: at most ``WAITS_MOST`` of them."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from taskqueue.core.parts.timer_heap import TimerHeap
from taskqueue.core.projects.waiters import Waiters
from taskqueue.core.tasks.links import TaskRef
from taskqueue.protocol.fields import Boot


class TaskWaiters:
    """Waiters by task. At the end of a turn none of the tasks is over."""

    __slots__ = ("_by_task", "_ends")

    def __init__(self) -> None:
        self._by_task: dict[TaskRef, Waiters] = {}
        self._ends: TimerHeap[TaskRef] = TimerHeap(self._end_of)

    def __len__(self) -> int:
        """Number of tasks that are waited for."""
        return len(self._by_task)

    def of(self, ref: TaskRef) -> Waiters | None:
        """The waiters for a task; None: there are none."""
        return self._by_task.get(ref)

    def keep(self, ref: TaskRef, waiters: Waiters) -> None:
        """Keep the waiters for a task, of which there are some now."""
        self._by_task[ref] = waiters
        self._ends.note(ref, waiters.next_at())

    def take(self, ref: TaskRef) -> Waiters | None:
        """Forget the waiters for a task that is over, and return them."""
        return self._by_task.pop(ref, None)

    def take_project(self, number: int) -> list[Waiters]:
        """Forget the waiters for all tasks of a project, and return them; looks at all."""
        return [self._by_task.pop(ref) for ref in list(self._by_task) if ref.project == number]

    def take_due(self, until: Boot) -> Iterator[Waiters]:
        """Waiters for tasks, some of whose limits are at most ``until``; take these from them before the next."""
        while (ref := self._ends.pop_due(until)) is not None:
            waiters = self._by_task.pop(ref)
            yield waiters
            if len(waiters):
                self.keep(ref, waiters)

    def next_at(self) -> float:
        """The earliest time limit; inf: nobody waits."""
        return self._ends.next_at()

    def _end_of(self, ref: TaskRef) -> float:
        waiters = self._by_task.get(ref)
        return inf if waiters is None else waiters.next_at()
