"""Requests that are answered when something happens, or after a time limit (long polls).

A waiter is lost with the daemon; the client repeats its request, which creates it anew. A session has one waiter for
one thing: the newer replaces the older. Of its ``watch`` requests several may wait: each replaces
only its own repeat.

``TaskWaiters`` finds those that wait for the end of a task. It has an entry only for a task that a request waits for:
at most ``WAITS_MOST``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from math import inf
from typing import Final, NamedTuple

from taskqueue.core.model.edges import TaskRef
from taskqueue.core.model.session import Session
from taskqueue.core.model.timer_heap import TimerHeap
from taskqueue.errors import Rejected
from taskqueue.protocol.fields import Boot
from taskqueue.protocol.messages import AnyOutgoing

WAITS_MOST: Final = 10_000
"""Waiting requests of all sessions together."""

FOR_EVER: Final = Boot(inf)
"""Later than every time limit."""

WAITS_OF_SESSION: Final = 1000
"""Waiting requests of one session."""


class Waiter(NamedTuple):
    """A session, the number of its waiting request, and its time limit (boot-clock seconds).

    Attributes:
        known: the version that one who watches knows; 0: none.
        apart: other requests of its session may wait for the same thing.
    """

    session: Session
    n: int
    until: Boot
    known: int = 0
    apart: bool = False

    @property
    def key(self) -> str:
        """By which it is found among those who wait for the same thing."""
        return f"{self.n} {self.session.id}" if self.apart else self.session.id


class Waiters:
    """The waiters for one thing. There may be ten thousand: no method looks at all of them for one."""

    __slots__ = ("_by_key", "_ends")

    def __init__(self) -> None:
        self._by_key: dict[str, Waiter] = {}
        self._ends: TimerHeap[str] = TimerHeap(self._end_of)

    def add(self, waiter: Waiter) -> None:
        """Add a waiter."""
        key = waiter.key
        self._by_key[key] = waiter
        self._ends.note(key, waiter.until)

    def of(self, key: str) -> Waiter | None:
        """The waiter of that key; None: there is none."""
        return self._by_key.get(key)

    def drop(self, key: str) -> None:
        """Remove the waiter of that key."""
        del self._by_key[key]

    def __len__(self) -> int:
        """Number of waiters."""
        return len(self._by_key)

    def next_at(self) -> float:
        """The earliest time limit; inf: nobody waits."""
        return self._ends.next_at()

    def take(self, until: Boot = FOR_EVER) -> Iterator[Waiter]:
        """Remove the waiters whose limit is at most ``until``, the earliest first."""
        while self._by_key and (key := self._ends.pop_due(until)) is not None:
            yield self._by_key.pop(key)

    def _end_of(self, key: str) -> float:
        waiter = self._by_key.get(key)
        return inf if waiter is None else waiter.until


class Waits:
    """All waiters, counted.

    Attributes:
        late: waiters that are due, with their replies, to be answered in one of the next turns.
    """

    __slots__ = ("_count", "late")

    def __init__(self) -> None:
        self._count = 0
        self.late: deque[tuple[Waiter, AnyOutgoing]] = deque()

    def add(self, waiters: Waiters, waiter: Waiter) -> None:
        """Add a waiter, replacing the one of its session.

        Raises:
            Rejected: too many wait already.
        """
        former = waiters.of(waiter.key)
        if former is not None:
            self.leave(former)
        elif self._count >= WAITS_MOST or waiter.session.waits >= WAITS_OF_SESSION:
            raise Rejected(
                "full",
                f"{waiter.session.waits} requests of this session wait already, {self._count} of all; "
                f"at most {WAITS_OF_SESSION} and {WAITS_MOST} may",
            )
        self._count += 1
        waiter.session.waits += 1
        waiters.add(waiter)

    def leave(self, waiter: Waiter) -> None:
        """Count a waiter no more, which has been answered or replaced."""
        self._count -= 1
        waiter.session.waits -= 1


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
