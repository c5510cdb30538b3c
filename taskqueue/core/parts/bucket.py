"""The token bucket: how many tasks a project may have handed out.

The level is exact at every moment, ``min(burst, level + rate * elapsed)``, with no quantum, so that the pace does not
depend on how often somebody looks. (J. Turner, "New directions in communications", 1986, describes it as a leaky
bucket counter.)

    level
    burst ┤······╭────────╮
          │     ╱│ full   │ take
        1 ┤····╱·│········╰──╱····  a task may go while the level is at least 1
        0 ┴───┴──┴──────────────► boot clock

It promises: in any window of t seconds at most burst + rate * t tokens are taken. Times are boot-clock seconds, given.
"""

from __future__ import annotations

from math import inf
from typing import Final

from taskqueue.protocol.fields import Boot

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
