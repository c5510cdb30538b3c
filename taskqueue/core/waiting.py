"""Requests that are answered when something happens, or after the time that they give it.

A waiter is lost with the daemon and with its session; the client, which asks again, makes it anew. One session has one
waiter for one thing: the newer takes the place of the older.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import NamedTuple

from taskqueue.core.sessions import Session


class Waiter(NamedTuple):
    """Who waits, for the answer to which request, until when (boot-clock seconds)."""

    session: Session
    n: int
    until: float


class Waiters:
    """Those who wait for one thing."""

    __slots__ = ("_by_session",)

    def __init__(self) -> None:
        self._by_session: dict[str, Waiter] = {}

    def add(self, waiter: Waiter) -> None:
        """Let it wait."""
        self._by_session[waiter.session.id] = waiter

    def next_at(self) -> float:
        """When the first of them wants to wait no longer; inf: nobody waits."""
        return min((waiter.until for waiter in self._by_session.values()), default=inf)

    def take(self, until: float = inf) -> Iterator[Waiter]:
        """Take out those who wait no longer than ``until``."""
        leaving = [waiter for waiter in self._by_session.values() if waiter.until <= until]
        for waiter in leaving:
            del self._by_session[waiter.session.id]
            yield waiter
