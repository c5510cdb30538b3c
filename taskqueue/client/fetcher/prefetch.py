"""How many tasks are to wait beside those that run, so that a free slot has one at once.

The time of a lease belongs to the run: a task that waits here uses up its own. So what waits follows what the slots
really finish:

1. At most PREFETCH_SECONDS of it, and at most one a slot; none at the start, when nothing is known.
2. None while the median run takes longer than SLOW_SECONDS: then the moment that a free slot waits for its next task
   is nothing beside the run.
3. It changes at most once in LOOK_SECONDS, because each change is a message to the daemon.
4. None after a task had to go back because it waited too long, until a run ends that is not slow.
5. While tasks are early, which must not be started yet, as many others are wanted, at most one a slot; by rules 2 to 4,
   and none at the start. So a slot does not wait for a time that is a second away, and where runs are slow, what is
   early finds its slot free when its time comes.

Somebody may name another number for rule 1; the others hold all the same.
"""

from __future__ import annotations

from collections import deque
from math import inf
from statistics import median
from typing import Final

PREFETCH_SECONDS: Final = 0.1
SLOW_SECONDS: Final = 1.0
LOOK_SECONDS: Final = 0.2

MEDIAN_RUNS: Final = 31
"""Of so many last runs."""


class Prefetch:
    """The number for one worker.

    Args:
        slots: tasks that run at once.
        fixed: so many, instead of what rule 1 says; None: as it says.

    Attributes:
        slots: as it was given; it may change.
        size: how many are to wait, now.
        ahead: how many others are wanted at most, now, while as many are early.
    """

    def __init__(self, slots: int, fixed: int | None = None) -> None:
        self.size = fixed or 0
        self.ahead = 0
        self.slots = slots
        self._fixed = fixed
        self._lasted: deque[float] = deque(maxlen=MEDIAN_RUNS)
        self._ended = 0
        self._looked_at = -inf
        self._waited_too_long = False

    def ran(self, seconds: float, now: float) -> bool:
        """A run has ended that took so long; True: ``size`` or ``ahead`` is another one now."""
        self._lasted.append(seconds)
        self._ended += 1
        if seconds <= SLOW_SECONDS:
            self._waited_too_long = False
        since = now - self._looked_at
        if since < LOOK_SECONDS:
            return False
        before = self.size, self.ahead
        is_slow = self._waited_too_long or median(self._lasted) > SLOW_SECONDS
        self.size = 0 if is_slow else self._fitting(self._ended / since)
        self.ahead = 0 if is_slow else self.slots
        self._looked_at = now
        self._ended = 0
        return before != (self.size, self.ahead)

    def waited_too_long(self) -> None:
        """A task had to go back."""
        self.size = self.ahead = 0
        self._waited_too_long = True

    def _fitting(self, rate: float) -> int:
        return min(self.slots, int(rate * PREFETCH_SECONDS)) if self._fixed is None else self._fixed
