"""Automatic pause: a project whose tasks only fail stops by itself, and looks now and then whether it is better.

    running ──fail_pause_num failures in a row──► paused ──pause_time──► checking: CHECKS tasks out at a time
       ▲                                          ▲  │                       │   │
       └──────────────── any success ─────────────┼──┴───────────────────────┘   │
                                                  └──────── CHECKS failures ──────┘

Rules:
1. Results alone count, however many tasks were handed out between them.
2. ``retry_after`` and ``retry: false`` are neither success nor failure here: the site answered as it meant to.
   But NEUTRAL_MOST of these answers to the checks of one phase are an answer, too: the project goes on.
3. In a check phase a failure counts if its task was handed out as a check of that phase; a check that comes back
   without a result makes room for another one.
4. What a person says wins: pausing by hand ends the phase, resuming forgets the failures.
5. A pause by hand may be for a time: when it is over the project is running, as if it had been resumed then.

``Project`` holds the state; this is the arithmetic.
"""

from __future__ import annotations

from typing import Final

from taskqueue.core.model.lease import Lease
from taskqueue.core.model.records import PauseRecord

CHECKS: Final = 3
"""Tasks handed out to see whether they still fail."""

NEUTRAL_MOST: Final = 3 * CHECKS
"""Checks of one phase that may be neither success nor failure: otherwise the project could be checking for ever."""


class Pause:
    """The state of a project's automatic pause.

    Attributes:
        record: the stored part.
        out: checks of this phase that are processing.
    """

    __slots__ = ("out", "record")

    def __init__(self, record: PauseRecord) -> None:
        self.record = record
        self.out = 0

    @property
    def room(self) -> int:
        """Checks that may be handed out now."""
        return max(0, CHECKS - self.record.failed_checks - self.out)

    def fail(self, limit: int) -> bool:
        """A task failed while the project was running; True: the limit is reached (``limit`` 0: never)."""
        self.record.failures += 1
        return 0 < limit <= self.record.failures

    def fail_check(self, phase: int) -> bool:
        """A check of ``phase`` failed; True: the last one needed. One of an earlier phase does not count."""
        if phase != self.record.phase:
            return False
        self.record.failed_checks += 1
        return self.record.failed_checks >= CHECKS

    def pass_check(self, phase: int) -> bool:
        """A check of ``phase`` was neither success nor failure; True: the last one needed. Others don't count."""
        if phase != self.record.phase:
            return False
        self.record.neutral_checks += 1
        return self.record.neutral_checks >= NEUTRAL_MOST

    def begin_wait(self, check_at: float, reason: str) -> None:
        """Pause until ``check_at`` (unix seconds)."""
        self.record.check_at = check_at
        self.record.reason = reason

    def end_at(self, until: float) -> None:
        """Let the pause by a person end at that time (unix seconds); 0: it does not end by itself."""
        self.record.until = until

    def begin_checks(self) -> None:
        """Start a new check phase."""
        self.record.phase += 1
        self.record.check_at = 0.0
        self.record.failed_checks = self.record.neutral_checks = self.out = 0

    def lend(self, lease: Lease) -> None:
        """Mark this lease as a check."""
        lease.check = self.record.phase
        self.out += 1

    def leave(self, phase: int) -> None:
        """A check has ended, however."""
        if phase == self.record.phase:
            self.out -= 1

    def forget(self) -> None:
        """Reset: a check succeeded, or a person took over."""
        self.record.failures = self.record.failed_checks = self.record.neutral_checks = self.out = 0
        self.record.check_at = self.record.until = 0.0
        self.record.reason = ""
        self.record.phase += 1
