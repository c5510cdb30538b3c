"""Requests that are answered when something happens, or after the time that they give it.

A waiter is lost with the daemon and with its session; the client, which asks again, makes it anew. One session has one
waiter for one thing: the newer takes the place of the older.
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
from taskqueue.protocol.replies import AnyOutgoing

WAITS_MOST: Final = 10_000
"""Requests that wait, of all sessions together."""

FOR_EVER: Final = Boot(inf)
"""Later than anybody wants to wait."""

WAITS_OF_SESSION: Final = 1000
"""Of one session."""


class Waiter(NamedTuple):
    """Who waits, for the answer to which request, until when (boot-clock seconds)."""

    session: Session
    n: int
    until: Boot


class Waiters:
    """Those who wait for one thing. Ten thousand may: nothing here looks at all of them for one."""

    __slots__ = ("_by_session", "_ends")

    def __init__(self) -> None:
        self._by_session: dict[str, Waiter] = {}
        self._ends: TimerHeap[str] = TimerHeap(self._end_of)

    def add(self, waiter: Waiter) -> None:
        """Let it wait."""
        self._by_session[waiter.session.id] = waiter
        self._ends.note(waiter.session.id, waiter.until)

    def of(self, session: str) -> Waiter | None:
        """That of a session; None: it does not wait for this."""
        return self._by_session.get(session)

    def next_at(self) -> float:
        """When the first of them wants to wait no longer; inf: nobody waits."""
        return self._ends.next_at()

    def take(self, until: Boot = FOR_EVER) -> Iterator[Waiter]:
        """Take out those who wait no longer than ``until``, the first to go first."""
        while self._by_session and (session := self._ends.pop_due(until)) is not None:
            yield self._by_session.pop(session)

    def _end_of(self, session: str) -> float:
        waiter = self._by_session.get(session)
        return inf if waiter is None else waiter.until


class Waits:
    """All that wait for anything, counted.

    Attributes:
        late: those that wait no more, with what they are to be told in one of the next turns.
    """

    __slots__ = ("_count", "late")

    def __init__(self) -> None:
        self._count = 0
        self.late: deque[tuple[Waiter, AnyOutgoing]] = deque()

    def add(self, waiters: Waiters, waiter: Waiter) -> None:
        """Let it wait with these, in place of the one of its session.

        Raises:
            Rejected: too many wait already.
        """
        former = waiters.of(waiter.session.id)
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
        """It waits no more."""
        self._count -= 1
        waiter.session.waits -= 1
