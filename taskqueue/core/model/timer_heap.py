"""Heap of timers, which says how long the scheduler may sleep.

Each timer has a key and a time; setting it again moves it earlier, never later. Whether a thing is due later
than its timer is checked when the timer fires (by ``due_at``), so that keeping timers up to date costs
nothing on the hot path.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final, Generic, TypeVar

SWEEP_AT_LEAST: Final = 64
"""Dead entries, left by moved timers, below which a sweep does not pay."""

K = TypeVar("K", bound=int | str | tuple[int | str, int | str])


class TimerHeap(Generic[K]):
    """Timers on one clock.

    Args:
        due_at: function that says when the thing behind a key is due; inf if it is gone. It must not change anything.
    """

    __slots__ = ("_at", "_due_at", "_heap")

    def __init__(self, due_at: Callable[[K], float]) -> None:
        self._due_at = due_at
        self._at: dict[K, float] = {}
        self._heap: list[tuple[float, K]] = []

    def __len__(self) -> int:
        """Return the number of entries, dead ones included."""
        return len(self._heap)

    def note(self, key: K, at: float) -> None:
        """Set the timer of ``key`` to ``at``, unless it is set to an earlier time; inf sets none."""
        if at < self._at.get(key, inf):
            self._at[key] = at
            heappush(self._heap, (at, key))
            if len(self._heap) > 2 * len(self._at) + SWEEP_AT_LEAST:
                self._heap = [(at, key) for key, at in self._at.items()]
                heapify(self._heap)

    def drop(self, key: K) -> None:
        """Delete the timer of ``key``."""
        self._at.pop(key, None)

    def next_at(self) -> float:
        """Return when the first thing is due; inf if nothing is."""
        while self._heap:
            at, key = self._heap[0]
            if self._at.get(key) != at:
                heappop(self._heap)
                continue
            due_at = self._due_at(key)
            if due_at <= at:
                return at
            self._drop_first()
            self.note(key, due_at)
        return inf

    def pop_due(self, now: float) -> K | None:
        """Remove and return the first key that is due; None if none is."""
        # No timer is later than its thing: if the first is not due, none is, and ``due_at`` need not be called.
        if not self._heap or self._heap[0][0] > now or self.next_at() > now:
            return None
        return self._drop_first()

    def _drop_first(self) -> K:
        _, key = heappop(self._heap)
        del self._at[key]
        return key
