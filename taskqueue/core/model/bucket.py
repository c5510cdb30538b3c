"""Token buckets, which limit the dispatches of one project, or of several that share a bucket.

The level is exact at every moment, ``min(burst, level + rate * elapsed)``, without a quantum, so the pace does not
depend on how often it is read. (J. Turner, "New directions in communications", 1986, describes it as a leaky
bucket counter.)

    level
    burst ┤······╭────────╮
          │     ╱│ full   │ take
        1 ┤····╱·│········╰──╱····  a task is dispatched only if the level is at least 1
        0 ┴───┴──┴──────────────► boot clock

Promise: in any t seconds at most burst + rate * t tokens are taken. Times are boot-clock seconds, given by the caller.

A shared bucket is a limit on all of its projects together:

    token ──► waiting: news 3.0 ─ shop 3.5 ─ wiki 4.0 ──► the smallest is first, and grows by tasks / weight

Projects that find it empty wait in order of their virtual times, so each gets a share in proportion to its weight.
(C. Waldspurger and W. Weihl, "Stride scheduling: deterministic proportional-share resource management", 1995.)
A project that was idle for a while gains nothing by that.

Rules:
1. No project takes a token while another waits with an earlier virtual time, however often the bucket is read.
2. ``_now``, the virtual time of the bucket, is never later than that of a waiting project.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf
from typing import Final

from taskqueue.core.model.records import BucketRecord
from taskqueue.protocol.fields import Boot
from taskqueue.protocol.projects import SharedBucket as SharedView

SLACK: Final = 1e-6
"""Tokens forgiven: a level that should be 1 may be off by rounding."""

SHORTEST_WAIT: Final = 1e-6
"""Seconds of the shortest wait, so that rounding never makes a wait 0."""


class Bucket:
    """Bucket that gains ``rate`` tokens a second, up to ``burst``.

    Attributes:
        level, at: tokens at a time, brought up to date by each call.
        kept_level, kept_at: tokens and time when tokens were last taken or the rate changed. They hold the same
            information and don't change while nothing happens, so these are stored.
    """

    __slots__ = ("at", "burst", "kept_at", "kept_level", "level", "rate")

    def __init__(self, rate: float, burst: float, level: float, at: Boot) -> None:
        self.rate = rate
        self.burst = burst
        self.level = self.kept_level = min(level, burst)
        self.at = self.kept_at = at

    def available(self, now: Boot) -> float:
        """Return the tokens that may be taken now, with fractions; 0 if fewer than one, inf if the rate is inf."""
        if self.rate == inf:
            return inf
        if self.rate == 0:
            return 0
        self._settle(now)
        return self.level + SLACK if self.level + SLACK >= 1 else 0

    def level_at(self, now: Boot) -> float:
        """Return the tokens at a time, with fractions; inf if the rate is inf."""
        self._settle(now)
        return inf if self.rate == inf else self.level

    def take(self, count: int, now: Boot) -> None:
        """Take ``count`` tokens, at most the number that ``available`` has just returned."""
        self._settle(now)
        if self.rate != inf:
            self.level -= count
            self.kept_level, self.kept_at = self.level, self.at

    def token_at(self) -> float:
        """Return when there will be a token (boot-clock seconds) if none is taken before; inf if never."""
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
    """Bucket of several projects.

    Attributes:
        bucket: tokens.
        waiting: virtual times of the projects that wait for a token, by number.
    """

    __slots__ = ("_heap", "_now", "bucket", "name", "waiting")

    def __init__(self, name: str, bucket: Bucket) -> None:
        self.name = name
        self.bucket = bucket
        self.waiting: dict[int, float] = {}
        self._heap: list[tuple[float, int]] = []
        self._now = 0.0

    def available(self, virtual: float, weight: float, now: Boot) -> float:
        """Return the tokens, with fractions, that a project that is not waiting may take before the waiting ones."""
        tokens = self.bucket.available(now)
        first = self._first()
        if first is None or not tokens:
            return tokens
        ahead = (first - max(virtual, self._now)) * weight
        return min(tokens, ahead + 1) if ahead >= 0 else 0

    def wait(self, project: int, virtual: float) -> None:
        """Make a project wait at its virtual time."""
        if project not in self.waiting:
            at = self.waiting[project] = max(virtual, self._now)
            heappush(self._heap, (at, project))

    def next_waiting(self) -> int | None:
        """Remove and return the first waiting project; None if none waits."""
        if self._first() is None:
            return None
        _, project = heappop(self._heap)
        del self.waiting[project]
        return project

    def forget(self, project: int) -> None:
        """Remove a project that was deleted, or has another bucket."""
        self.waiting.pop(project, None)

    def take(self, count: int, virtual: float, weight: float, now: Boot) -> float:
        """Take available tokens; return the project's new virtual time."""
        self.bucket.take(count, now)
        self._now = max(self._now, virtual)
        return self._now + count / weight

    def _first(self) -> float | None:
        """Return the virtual time of the first waiting project."""
        while self._heap:
            at, project = self._heap[0]
            if self.waiting.get(project) == at:
                return at
            heappop(self._heap)
        return None

    def token_at(self) -> float:
        """Return when there will be a token for a waiting project (boot-clock seconds); inf if none waits."""
        return self.bucket.token_at() if self.waiting else inf

    def view(self, now: Boot) -> SharedView:
        """Return the bucket as replies show it."""
        return SharedView(self.name, self.bucket.rate, self.bucket.burst, self.bucket.level_at(now))

    def record(self) -> BucketRecord:
        """Return the record to store."""
        return BucketRecord(self.name, self.bucket.level, self.bucket.at)
