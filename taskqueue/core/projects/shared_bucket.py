"""A bucket that several projects share: a limit on all of them together.

    token ──► waiting: news 3.0 ─ shop 3.5 ─ wiki 4.0 ──► the least goes first, and moves on by tasks / weight

Projects that found it empty wait in the order of their virtual times, so each gets a part in proportion to its weight.
(C. Waldspurger and W. Weihl, "Stride scheduling: deterministic proportional-share resource management", 1995.)
A project that did not want anything for a while gains nothing by that.

Rules:
1. Nobody takes a token past one who waits with an earlier virtual time, however often it is looked at.
2. ``_now``, the virtual time of the whole, is never later than that of one who waits.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf

from taskqueue.core.parts.bucket import Bucket
from taskqueue.core.tasks.records import BucketRecord
from taskqueue.protocol.fields import Boot
from taskqueue.protocol.projects import SharedView


class SharedBucket:
    """A shared bucket.

    Attributes:
        bucket: its tokens.
        waiting: numbers of the projects that wait for a token, with their virtual times.
    """

    __slots__ = ("_heap", "_now", "bucket", "name", "waiting")

    def __init__(self, name: str, bucket: Bucket) -> None:
        self.name = name
        self.bucket = bucket
        self.waiting: dict[int, float] = {}
        self._heap: list[tuple[float, int]] = []
        self._now = 0.0

    def available(self, virtual: float, weight: float, now: Boot) -> float:
        """Tokens, with a fraction, that a project which does not wait may take now before the waiting ones."""
        tokens = self.bucket.available(now)
        first = self._first()
        if first is None or not tokens:
            return tokens
        ahead = (first - max(virtual, self._now)) * weight
        return min(tokens, ahead + 1) if ahead >= 0 else 0

    def wait(self, project: int, virtual: float) -> None:
        """Let a project wait at its virtual time."""
        if project not in self.waiting:
            at = self.waiting[project] = max(virtual, self._now)
            heappush(self._heap, (at, project))

    def next_waiting(self) -> int | None:
        """Remove and return the waiting project whose turn it is; None: none waits."""
        if self._first() is None:
            return None
        _, project = heappop(self._heap)
        del self.waiting[project]
        return project

    def forget(self, project: int) -> None:
        """Remove a project that was deleted, or has another bucket."""
        self.waiting.pop(project, None)

    def take(self, count: int, virtual: float, weight: float, now: Boot) -> float:
        """Take tokens that are available; returns the project's new virtual time."""
        self.bucket.take(count, now)
        self._now = max(self._now, virtual)
        return self._now + count / weight

    def _first(self) -> float | None:
        """The virtual time of the first waiting project."""
        while self._heap:
            at, project = self._heap[0]
            if self.waiting.get(project) == at:
                return at
            heappop(self._heap)
        return None

    def token_at(self) -> float:
        """When there will be a token for a waiting project (boot-clock seconds); inf: none waits."""
        return self.bucket.token_at() if self.waiting else inf

    def view(self, now: Boot) -> SharedView:
        """The bucket as people see it."""
        return SharedView(self.name, self.bucket.rate, self.bucket.burst, self.bucket.level_at(now))

    def record(self) -> BucketRecord:
        """The record to store."""
        return BucketRecord(self.name, self.bucket.level, self.bucket.at)
