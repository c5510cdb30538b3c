"""Automatic pause: a project whose tasks only fail stops by itself, and tries some tasks now and then.

    running ──fail_pause_num failures in a row──► paused ──pause_time──► checking: CHECKS tasks out at a time
       ▲                                          ▲  │                       │   │
       └──────────────── any success ─────────────┼──┴───────────────────────┘   │
                                                  └──────── CHECKS failures ──────┘

Rules:
1. Only results count, however many tasks are dispatched between them.
2. ``retry_after`` and ``retry: false`` are neither success nor failure here: the site answered as intended.
   But after NEUTRAL_MOST such answers to the checks of one phase the project goes on.
3. In a check phase a failure counts if its task was dispatched as a check of that phase; a check that comes back
   without a result makes room for another one.
4. Operators win: pausing by hand ends the phase, resuming forgets the failures.
5. A pause by hand may be for a time: the project then runs again, as if it had been resumed.

``Project`` has the state; this is the arithmetic.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from taskqueue.core.model.lease import Lease
from taskqueue.protocol.choices import ProjectState
from taskqueue.protocol.values import PauseRecord

CHECKS: Final = 3
"""Checks under way at a time, which show whether tasks still fail."""

NEUTRAL_MOST: Final = 3 * CHECKS
"""Checks of one phase that may be neither success nor failure; without a bound the project could be checking for ever.
"""


class Pause:
    """State of a project's automatic pause.

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
        """Number of checks that may be dispatched now."""
        return max(0, CHECKS - self.record.failed_checks - self.out)

    def fail(self, limit: int) -> bool:
        """Count a failure while the project is running; return whether it reaches ``limit`` (0 for no limit)."""
        self.record.failures += 1
        return 0 < limit <= self.record.failures

    def fail_check(self, phase: int) -> bool:
        """Count a failed check of ``phase``; return whether it was the last one needed. Earlier phases don't count."""
        if phase != self.record.phase:
            return False
        self.record.failed_checks += 1
        return self.record.failed_checks >= CHECKS

    def pass_check(self, phase: int) -> bool:
        """Count a neutral check of ``phase``; return whether it was the last one needed. Earlier phases don't count."""
        if phase != self.record.phase:
            return False
        self.record.neutral_checks += 1
        return self.record.neutral_checks >= NEUTRAL_MOST

    def begin_wait(self, check_at: float, reason: str) -> None:
        """Pause until ``check_at`` (unix seconds)."""
        self.record.check_at = check_at
        self.record.reason = reason

    def end_at(self, until: float) -> None:
        """Set the end of an operator's pause (unix seconds); 0 if it does not end by itself."""
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
        """Record that a check has ended, with any outcome."""
        if phase == self.record.phase:
            self.out -= 1

    def forget(self) -> None:
        """Reset: a check succeeded, or an operator took over."""
        self.record.failures = self.record.failed_checks = self.record.neutral_checks = self.out = 0
        self.record.check_at = self.record.until = 0.0
        self.record.reason = ""
        self.record.phase += 1


def imported_pause(state: ProjectState, pause: PauseRecord | None) -> PauseRecord:
    """Return the pause of an imported project in this state; None: none was exported.

    A project that checks gets a phase of at least 1, because leases of phase 0 are not checks, and room for a check.
    """
    pause = pause or PauseRecord()
    if state != "checking":
        return pause
    return replace(pause, phase=max(pause.phase, 1), failed_checks=min(pause.failed_checks, CHECKS - 1))
