"""The one module of the daemon that reads the time.

Two clocks, because a crawler's times are of two kinds. *Wall* time is what people and sites mean by a date:
exetime and ages run on it, and it may be stepped by whoever keeps the machine's clock. *Boot* time counts the
seconds since the machine started, those in suspend included, and never steps: deadlines and buckets run on
it.

    the wall clock went back by       the daemon's wall time
    up to SMALL_STEP_SECONDS          waits where it is until the clock has caught up
    more                              follows, and the log says so
"""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Final

from taskqueue.protocol.fields import Now

SMALL_STEP_SECONDS: Final = 60.0
BOOT_ID_FILE: Final = Path("/proc/sys/kernel/random/boot_id")

log = logging.getLogger("taskqueue")

ticks = time.perf_counter
"""Seconds from an arbitrary moment, for measuring how long something takes."""
cpu_ticks = time.thread_time
"""Seconds that this thread has had the processor, for measuring what something costs."""


class Clock:
    """Gives the time as the core wants it. Wall time from one clock goes back only by a step over 60 s."""

    def __init__(self) -> None:
        self._wall = time.time()
        self.started_at = boot_seconds()

    def now(self) -> Now:
        """The time now, on both clocks."""
        self._wall = self._follow(time.time())
        return Now(wall=self._wall, boot=boot_seconds())

    def uptime(self) -> float:
        """Seconds since this clock was made."""
        return boot_seconds() - self.started_at

    def _follow(self, wall: float) -> float:
        back = self._wall - wall
        if back <= 0:
            return wall
        if back <= SMALL_STEP_SECONDS:
            return self._wall
        log.warning("clock-stepped-back seconds=%.1f; exetimes and ages follow it", back)
        return wall


def boot_seconds() -> float:
    """Seconds since the machine started, on a clock that never steps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """Names this run of the machine: boot-clock times of another one mean nothing."""
    return BOOT_ID_FILE.read_text().strip()
