"""Requests that are answered when something happens, or after the time that they give it.

A waiter is lost with the daemon and with its session; the client, which asks again, makes it anew. One session has one
waiter for one thing: the newer takes the place of the older.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import NamedTuple

from taskqueue.core.agenda import Agenda
from taskqueue.core.sessions import Session


class Waiter(NamedTuple):
    """Who waits, for the answer to which request, until when (boot-clock seconds)."""

    session: Session
    n: int
    until: float


class Waiters:
    """Those who wait for one thing. Ten thousand may: nothing here looks at all of them for one."""

    __slots__ = ("_by_session", "_ends")

    def __init__(self) -> None:
        self._by_session: dict[str, Waiter] = {}
        self._ends: Agenda[str] = Agenda(self._end_of)

    def add(self, waiter: Waiter) -> None:
        """Let it wait."""
        self._by_session[waiter.session.id] = waiter
        self._ends.note(waiter.session.id, waiter.until)

    def next_at(self) -> float:
        """When the first of them wants to wait no longer; inf: nobody waits."""
        return self._ends.next_at()

    def take(self, until: float = inf) -> Iterator[Waiter]:
        """Take out those who wait no longer than ``until``, the first to go first."""
        while self._by_session and (session := self._ends.pop_due(until)) is not None:
            yield self._by_session.pop(session)

    def _end_of(self, session: str) -> float:
        waiter = self._by_session.get(session)
        return inf if waiter is None else waiter.until
