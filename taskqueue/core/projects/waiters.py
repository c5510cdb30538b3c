"""Requests that are answered when something happens, or after a time limit (long polls).

A waiter is lost with the daemon; the client repeats its request, which creates it anew. A session has one waiter for
one thing: the newer replaces the older. It watches as often as it likes: there a request replaces only its own repeat.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from math import inf
from typing import Final, NamedTuple

from taskqueue.core.parts.timer_heap import TimerHeap
from taskqueue.core.projects.session import Session
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
