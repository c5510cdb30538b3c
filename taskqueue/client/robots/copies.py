"""Copies of robots.txt: how long each is good, what stands for a file that can't be had, how many are kept.

    answer 2xx ────────────────► its rules                                  for ``max_age``
    answer 4xx, but for 429 ───► no rules: all is allowed                   for ``max_age``
    any other answer, or none ─► the last rules, or all is disallowed       for 1 minute, 2, 4, … an hour

These are sections 2.3.1 and 2.4 of RFC 9309. An answer 429 is a 4xx by its number only: a site that has too much to do
has not said that all is allowed. A 3xx is a redirect that was not followed: what it leads to is not known.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from taskqueue.client.connection.patience import checked_count, checked_seconds
from taskqueue.client.robots.rules import Rules

Answer = tuple[int, bytes]
"""Status of an HTTP answer, and its body."""

MAX_AGE_SECONDS: Final = 86_400.0
"""RFC 9309, section 2.4."""

TOO_MANY_REQUESTS: Final = 429

FIRST_DELAY_SECONDS: Final = 60.0
LAST_DELAY_SECONDS: Final = 3600.0
MOST_DOUBLINGS: Final = 6

MAX_CHARS: Final = 8 << 20
"""Of all rules that are kept: they take some 20 times as much memory, hostile ones 60 times."""


class Copy(NamedTuple):
    """What is known of one robots.txt.

    Attributes:
        rules: None: it could not be had, and all is disallowed.
        fetch_at: when it is to be fetched again, by the clock of whoever keeps it.
        failures: how often in a row it could not be had.
        trouble: why, such as "answered by 503" or "TimeoutError: timed out"; "": it could.
        status: of the answer that it was; None: there was none.
    """

    rules: Rules | None
    fetch_at: float
    failures: int = 0
    trouble: str = ""
    status: int | None = None

    @property
    def size(self) -> int:
        """Characters of its rules."""
        return 0 if self.rules is None else self.rules.size


class Copies:
    """A copy for each origin; those that nobody has asked for lately make room for others.

    Args:
        agent: whom the rules are read for.
        max_age: seconds, at most a day.
        max_origins: copies that are kept.
    """

    def __init__(self, agent: str, max_age: float, max_origins: int) -> None:
        if not checked_seconds("max_age", max_age, MAX_AGE_SECONDS):
            raise ValueError(f"max_age: expected more than 0 seconds, got {max_age}")
        checked_count("max_origins", max_origins)
        self._agent = agent
        self._max_age = max_age
        self._max_origins = max_origins
        self._kept: OrderedDict[str, Copy] = OrderedDict()
        self._chars = 0

    def get(self, origin: str, now: float) -> Copy | None:
        """The copy that is good now; None: it must be fetched."""
        copy = self._kept.get(origin)
        if copy is None or now >= copy.fetch_at:
            return None
        self._kept.move_to_end(origin)
        return copy

    def keep(self, origin: str, answer: Answer | Exception, now: float) -> Copy:
        """Take what came of fetching it: the answer, or why there was none."""
        last = self._kept.pop(origin, None)
        copy = self._kept[origin] = self._judged(answer, last, now)
        self._chars += copy.size - (0 if last is None else last.size)
        while len(self._kept) > self._max_origins or self._chars > MAX_CHARS:
            self._chars -= self._kept.popitem(last=False)[1].size
        return copy

    def _judged(self, answer: Answer | Exception, last: Copy | None, now: float) -> Copy:
        if isinstance(answer, Exception):
            return _unreachable(f"{type(answer).__name__}: {answer}", last, now, None)
        status, body = answer
        if 200 <= status < 300:
            return Copy(Rules(body, self._agent), now + self._max_age)
        if 400 <= status < 500 and status != TOO_MANY_REQUESTS:
            return Copy(Rules(b"", self._agent), now + self._max_age)
        return _unreachable(f"answered by {status}", last, now, status)


def _unreachable(trouble: str, last: Copy | None, now: float, status: int | None) -> Copy:
    failures = 0 if last is None else last.failures
    delay = min(FIRST_DELAY_SECONDS * 2 ** min(failures, MOST_DOUBLINGS), LAST_DELAY_SECONDS)
    return Copy(None if last is None else last.rules, now + delay, failures + 1, trouble, status)
