"""Bounds of the failures in the store: the next key, and the failures past their retention.

A module apart from ``failure_groups``, which has Structs, because this one is compiled.

    first ── … the order by time … ── last      numbers grow by one with each failure, so their difference is a count

Rules:
1. At most FAILURES_MOST are stored, and none for longer than FAILURES_SECONDS. With one too many, or too old, the
   next SPARE_FAILURES, or those of the next SPARE_SECONDS, are dropped as well, so that many are dropped at once.
2. A range from the first one on is dropped, page by page.
3. Where the wall clock was put back, times and numbers disagree. Then the excess may be as large as the number of
   failures meanwhile, until they are a week old.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final

from taskqueue.core.model.attempt_records import KeptFailure
from taskqueue.core.model.task import SEQ_BITS, key_time, time_key
from taskqueue.protocol.fields import Wall

FAILURES_MOST: Final = 1_000_000
FAILURES_SECONDS: Final = 7 * 86_400.0

SPARE_FAILURES: Final = 1024
SPARE_SECONDS: Final = 60.0
"""Seconds ahead: failures that will be too old within them are dropped, too."""

_NUMBER: Final = (1 << SEQ_BITS) - 1


class FailureLog:
    """The bounds of the failures in the store.

    Attributes:
        low: lower bound of all keys.
        at: unix seconds of the first failure; inf if there is none.
        over_at: unix seconds from which on some are to be dropped; -inf if there are too many.
    """

    __slots__ = ("_first", "_next", "at", "low", "over_at")

    def __init__(self, first: int, last: int) -> None:
        """Start with the keys of the first and the last failure in the store; 0 if there are none."""
        self._next = (last & _NUMBER) + 1
        self.low = 0
        self.begin_with(first)

    @property
    def count(self) -> int:
        """Number of failures; see rule 3."""
        return max(0, self._next - self._first)

    @property
    def old_at(self) -> float:
        """Unix seconds at which the first failure becomes too old; inf if there is none."""
        return self.at + FAILURES_SECONDS

    def add(self, at: float) -> int:
        """Take the key of a new failure at ``at`` (unix seconds)."""
        key = time_key(at, self._next)
        self._next += 1
        if self.at == inf or key < self.low:
            self.begin_with(key)
        elif self.count > FAILURES_MOST:
            self.over_at = -inf
        return key

    def is_over(self, now: Wall) -> bool:
        """Return whether some failures should be dropped now."""
        return self.over_at <= now

    def old_of(self, page: Sequence[KeptFailure], now: Wall) -> int:
        """Return how many of the first failures, given as a page, are to be dropped; ``now`` in unix seconds."""
        too_early = now - FAILURES_SECONDS + SPARE_SECONDS
        too_low = self._next - FAILURES_MOST + SPARE_FAILURES
        for place, (key, _) in enumerate(page):
            if key_time(key) >= too_early and key & _NUMBER >= too_low:
                return place
        return len(page)

    def begin_with(self, key: int) -> None:
        """Set the key of the first remaining failure; 0 if none is left."""
        if key:
            self.low, self.at, self._first = key, key_time(key), key & _NUMBER
        else:
            self.at, self._first = inf, self._next
        self.over_at = self.old_at if self.count <= FAILURES_MOST else -inf
