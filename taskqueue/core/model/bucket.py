"""The token bucket: how many tasks may be handed out, of one project, or of several that share a bucket.

The level is exact at every moment, ``min(burst, level + rate * elapsed)``, with no quantum, so that the pace does not
depend on how often somebody looks. (J. Turner, "New directions in communications", 1986, describes it as a leaky
bucket counter.)

    level
    burst ┤······╭────────╮
          │     ╱│ full   │ take
        1 ┤····╱·│········╰──╱····  a task may go while the level is at least 1
        0 ┴───┴──┴──────────────► boot clock

It promises: in any window of t seconds at most burst + rate * t tokens are taken. Times are boot-clock seconds, given.

A shared bucket is a limit on all of its projects together:

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
from typing import Final

from taskqueue.core.model.records import BucketRecord
from taskqueue.protocol.fields import Boot
from taskqueue.protocol.projects import SharedBucket as SharedView

SLACK: Final = 1e-6
"""Tokens forgiven: a level that should be 1 is off by rounding."""

SHORTEST_WAIT: Final = 1e-6
"""Seconds; so that rounding never turns a wait into none."""


class Bucket:
    """A bucket that gains ``rate`` tokens a second, up to ``burst``.

    Attributes:
        level, at: tokens at a time, moved on whenever somebody looks.
        kept_level, kept_at: the same when tokens were last taken, or the rate changed. They say all that the others do,
            and stay as they are while nothing happens, so it is these that are stored.
    """

    __slots__ = ("at", "burst", "kept_at", "kept_level", "level", "rate")

    def __init__(self, rate: float, burst: float, level: float, at: Boot) -> None:
        self.rate = rate
        self.burst = burst
        self.level = self.kept_level = min(level, burst)
        self.at = self.kept_at = at

    def available(self, now: Boot) -> float:
        """Tokens that may be taken now, with a fraction; 0 if there is less than one, inf if the rate is."""
        if self.rate == inf:
            return inf
        if self.rate == 0:
            return 0
        self._settle(now)
        return self.level + SLACK if self.level + SLACK >= 1 else 0

    def level_at(self, now: Boot) -> float:
        """Tokens at a time, with fractions; inf if the rate is."""
        self._settle(now)
        return inf if self.rate == inf else self.level

    def take(self, count: int, now: Boot) -> None:
        """Take ``count`` tokens, no more than ``available`` has just returned."""
        self._settle(now)
        if self.rate != inf:
            self.level -= count
            self.kept_level, self.kept_at = self.level, self.at

    def token_at(self) -> float:
        """When there will be a token (boot-clock seconds), if nobody takes one before; inf: never."""
        if self.rate == 0:
            return inf
        if self.rate == inf or self.level + SLACK >= 1:
            return self.at
        return self.at + max(SHORTEST_WAIT, (1 - self.level) / self.rate)

    def change(self, rate: float, burst: float, now: Boot) -> None:
        """Change rate and burst; tokens gained until now stay, up to the new burst."""
        self._settle(now)
        self.rate = rate
        self.burst = burst
        self.level = min(self.level, burst)
        self.kept_level, self.kept_at = self.level, self.at

    def _settle(self, now: Boot) -> None:
        if now <= self.at:
            return
        if self.rate == inf:
            self.level = self.burst
        else:
            self.level = min(self.burst, self.level + self.rate * (now - self.at))
        self.at = now


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
