"""Time for the core, which reads no clock itself; and clocks that measure durations and costs.

There are two clocks. *Wall* time is unix time, the time of dates: exetime and ages use it, and the operator may step
it. *Boot* time counts the seconds since the machine started, including suspend, and never steps:
deadlines and buckets use it.

    the wall clock went back by       the daemon's wall time
    up to SMALL_STEP_SECONDS          stands still until the clock has caught up
    more                              follows, with a warning in the daemon log
"""

from __future__ import annotations

import logging
import time
from functools import cache
from pathlib import Path
from typing import Final
from uuid import uuid4

from taskqueue.core.model.now import Now
from taskqueue.protocol.fields import Boot, Wall

SMALL_STEP_SECONDS: Final = 60.0
BOOT_ID_FILE: Final = Path("/proc/sys/kernel/random/boot_id")

log = logging.getLogger("taskqueue")

ticks = time.perf_counter
"""Return seconds since an arbitrary moment, for measuring durations."""
cpu_ticks = time.thread_time
"""Return CPU seconds of this thread, for measuring costs."""


class Clock:
    """Clock of the core. Its wall time steps back by more than SMALL_STEP_SECONDS or not at all."""

    def __init__(self) -> None:
        self._wall = time.time()
        self.started_at = boot_seconds()

    def now(self) -> Now:
        """Read both clocks."""
        self._wall = self._follow(time.time())
        return Now(wall=Wall(self._wall), boot=Boot(boot_seconds()))

    def uptime(self) -> float:
        """Return seconds since this clock was created."""
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
    """Return seconds since the machine started, on a clock that never steps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@cache
def boot_id(file: Path = BOOT_ID_FILE) -> str:
    """Return the id of the current boot of the machine: boot-clock times of another boot mean nothing.

    If the file can't be read, as with ``ProcSubset=pid`` of systemd or in gVisor, each process counts as its own boot,
    so after an unclean stop the machine may have been off.
    """
    try:
        return file.read_text().strip()
    except OSError as error:
        log.warning(
            "boot-unknown file=%s error=%s; an unclean stop counts as a power cut: buckets begin empty after it",
            file,
            error.strerror,
        )
        return str(uuid4())
