"""Limits of a worker's work, after which its process ends by itself, so that leaks of handlers can't grow for ever.

run begins ──────────► the last of ``max_tasks``: no more begins, unless one of them was too late to be run
run ends ────────────► memory is checked, at most ten times a second ──► above ``max_memory_bytes``: no more begins
projects finish ─────► no more begins
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import inf
from typing import Final

from taskqueue.client.arguments import checked_count
from taskqueue.client.asynchronous.client import AsyncClient
from taskqueue.errors import RequestTimeout
from taskqueue.this_process import resident_bytes

LOOK_SECONDS: Final = 0.1
"""Shortest time between two checks of the memory. One takes about 20 µs, a fifth of the shortest run's cost."""

ENDS: Final = "no more tasks are taken; the process ends when the running tasks have ended"

log = logging.getLogger("taskqueue.worker")


class Lifespan:
    """Counter of one worker's runs, which also checks the memory of its process after them.

    Args:
        max_tasks: runs in all; None: no limit.
        max_memory_bytes: resident bytes above which no run begins; None: no limit.

    Raises:
        TypeError, ValueError: a limit is not an integer of at least 1.
    """

    def __init__(self, max_tasks: int | None, max_memory_bytes: int | None) -> None:
        self._max_tasks = inf if max_tasks is None else checked_count("max_tasks", max_tasks)
        self._max_bytes = inf if max_memory_bytes is None else checked_count("max_memory_bytes", max_memory_bytes)
        self._begun = 0
        self._ended = False
        self._is_told = False
        self._when_over: Callable[[], None] | None = None
        self._look_at = -inf
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_over(self) -> bool:
        """True if no more runs are to begin."""
        return self._begun >= self._max_tasks or self._ended

    def warn_if_unknown(self) -> None:
        """Log a warning if this system does not show how much memory a process takes."""
        if self._max_bytes < inf and not resident_bytes():
            log.warning("event=memory-unknown reason='there is no /proc/self/statm here: max_memory has no effect'")

    @contextmanager
    def watching(self, when_over: Callable[[], None]) -> Iterator[None]:
        """Check the memory inside the block; call ``when_over`` when it is exceeded, even between runs."""
        self._when_over = when_over
        try:
            yield
        finally:
            self._when_over = None
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def begin(self) -> None:
        """Count a run that begins."""
        self._begun += 1
        if self._begun == self._max_tasks and not self._is_told:
            # A run that was too late for its handler does not count, and the last one begins again.
            self._is_told = True
            log.info("event=max-tasks tasks=%d reason='%s'", self._begun, ENDS)

    def take_back(self) -> None:
        """Uncount a run that was too late for its handler to be called."""
        self._begun -= 1

    def end(self, now: float) -> None:
        """Check the memory after a run, at once (``now``: by the loop's clock) or soon."""
        if self._max_bytes == inf or self._timer is not None or self._when_over is None:
            return
        if now >= self._look_at:
            self._look()
        else:
            self._timer = asyncio.get_running_loop().call_at(self._look_at, self._look)

    def end_now(self) -> None:
        """Let no more runs begin."""
        if self._when_over is not None and not self._ended:
            self._when_over()
        self._ended = True

    def _look(self) -> None:
        self._timer = None
        self._look_at = asyncio.get_running_loop().time() + LOOK_SECONDS
        resident = resident_bytes()
        if resident > self._max_bytes and not self._ended:
            log.info(
                "event=max-memory resident_bytes=%d max_bytes=%d tasks=%d reason='%s'",
                resident, self._max_bytes, self._begun, ENDS,
            )  # fmt: skip
            self.end_now()


async def until_finished(client: AsyncClient, projects: Sequence[str]) -> None:
    """Return when all of these projects have finished, and log it.

    Raises:
        RequestRejected: a project does not exist.
    """
    while not all([await _finished(client, project, 0) for project in projects]):
        for project in projects:
            await _finished(client, project, None)
    log.info("event=finished projects=%s reason='%s'", ",".join(projects), ENDS)


async def _finished(client: AsyncClient, project: str, seconds: float | None) -> bool:
    """Wait until a project has finished, also while the daemon is away."""
    while True:
        with suppress(RequestTimeout):
            return await client.projects.wait(project, seconds)
