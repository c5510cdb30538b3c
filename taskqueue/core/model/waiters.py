"""Requests that are answered upon an event, or after a time limit (long polls).

A waiter is lost if the daemon stops; the client repeats its request, which creates it anew. A session has one waiter
per thing: a newer one replaces the older. Several of its ``watch`` requests may wait: each replaces
only its own repeat.

``TaskWaiters`` finds the waiters for the end of a task. It has entries only for tasks with waiters:
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
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.callers import Scope
from taskqueue.protocol.fields import Boot
from taskqueue.protocol.messages import AnyOutgoing

WAITS_MOST: Final = 10_000
"""Waiting requests of all sessions together, at most."""

FOR_EVER: Final = Boot(inf)
"""Time limit later than all others."""

WAITS_OF_SESSION: Final = 1000
"""Waiting requests of one session, at most."""

CUT_OFF: Final = "your rights were reduced, or your connection closed, while this request waited; send it again"


def refusal_of(session: Session, n: int, cuts: int) -> ErrorReply | None:
    """Return the refusal of a request that began at these ``cuts``, if its session was cut off since; else None."""
    return ErrorReply(n=n, code="forbidden", reason=CUT_OFF) if cuts != session.cuts else None


class Waiter(NamedTuple):
    """Waiting request: its session, its number, and its time limit (boot-clock seconds).

    Attributes:
        known: version that a ``watch`` request knows; 0 if none.
        apart: True if other requests of its session may wait for the same thing.
        scope: projects that its sender reaches; None: all.
        cuts: ``cuts`` of its session when it began to wait.
    """

    session: Session
    n: int
    until: Boot
    known: int = 0
    apart: bool = False
    scope: Scope | None = None
    cuts: int = 0

    @property
    def refusal(self) -> ErrorReply | None:
        """Reply to it if its session was cut off while it waited, as it may do less by now; else None."""
        return refusal_of(self.session, self.n, self.cuts)

    @property
    def key(self) -> str:
        """Key among the waiters for the same thing."""
        return f"{self.n} {self.session.id}" if self.apart else self.session.id


class Waiters:
    """Waiters for one thing. There may be ten thousand: no method scans all of them for one."""

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
        """Return the waiter of that key; None if there is none."""
        return self._by_key.get(key)

    def drop(self, key: str) -> None:
        """Remove the waiter of that key."""
        del self._by_key[key]

    def __len__(self) -> int:
        """Return the number of waiters."""
        return len(self._by_key)

    @property
    def are_cut_off(self) -> bool:
        """True if the sessions of all waiters have been cut off since; costs a pass over them."""
        return all(waiter.refusal is not None for waiter in self._by_key.values())

    def next_at(self) -> float:
        """Return the earliest time limit; inf if there are no waiters."""
        return self._ends.next_at()

    def take(self, until: Boot = FOR_EVER) -> Iterator[Waiter]:
        """Remove and yield the waiters whose limit is at most ``until``, the earliest first."""
        while self._by_key and (key := self._ends.pop_due(until)) is not None:
            yield self._by_key.pop(key)

    def _end_of(self, key: str) -> float:
        waiter = self._by_key.get(key)
        return inf if waiter is None else waiter.until


class Waits:
    """Counts of all waiters.

    Attributes:
        late: due waiters with their replies, to be answered in one of the next turns.
    """

    __slots__ = ("_count", "late")

    def __init__(self) -> None:
        self._count = 0
        self.late: deque[tuple[Waiter, AnyOutgoing]] = deque()

    def add(self, waiters: Waiters, waiter: Waiter) -> None:
        """Add a waiter, replacing the one of its session.

        Raises:
            Rejected: too many requests wait already.
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
        waiters.add(waiter._replace(cuts=waiter.session.cuts))

    def leave(self, waiter: Waiter) -> None:
        """Uncount a waiter that has been answered or replaced."""
        self._count -= 1
        waiter.session.waits -= 1


class TaskWaiters:
    """Waiters by task; at the end of a turn none of the tasks is finished."""

    __slots__ = ("_by_task", "_ends")

    def __init__(self) -> None:
        self._by_task: dict[TaskRef, Waiters] = {}
        self._ends: TimerHeap[TaskRef] = TimerHeap(self._end_of)

    def __len__(self) -> int:
        """Return the number of tasks with waiters."""
        return len(self._by_task)

    def of(self, ref: TaskRef) -> Waiters | None:
        """Return the waiters for a task; None if there are none."""
        return self._by_task.get(ref)

    def keep(self, ref: TaskRef, waiters: Waiters) -> None:
        """Store the waiters for a task, after one was added."""
        self._by_task[ref] = waiters
        self._ends.note(ref, waiters.next_at())

    def take(self, ref: TaskRef) -> Waiters | None:
        """Remove and return the waiters for a finished task."""
        return self._by_task.pop(ref, None)

    def take_project(self, number: int) -> list[Waiters]:
        """Remove and return the waiters for all tasks of a project; costs a pass over all."""
        return [self._by_task.pop(ref) for ref in list(self._by_task) if ref.project == number]

    def take_due(self, until: Boot) -> Iterator[Waiters]:
        """Yield waiters for tasks, some of whose limits are at most ``until``; take those before the next step."""
        while (ref := self._ends.pop_due(until)) is not None:
            waiters = self._by_task.pop(ref)
            yield waiters
            if len(waiters):
                self.keep(ref, waiters)

    def next_at(self) -> float:
        """Return the earliest time limit; inf if there are no waiters."""
        return self._ends.next_at()

    def _end_of(self, ref: TaskRef) -> float:
        waiters = self._by_task.get(ref)
        return inf if waiters is None else waiters.next_at()
