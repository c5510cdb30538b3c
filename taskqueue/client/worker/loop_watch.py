"""Watch over a worker's event loop: a handler that blocks it is logged, and given up when it hangs.

    asked each LOOK_SECONDS while handlers run ──► answers
      └── LOOKS_MOST without an answer, or the lease has ended ──► logged with its stack ──► again ──► answers: logged
                                                                    └── as late as another run hangs ──► given up

An ``async`` handler that computes, or waits without ``await`` such as in ``requests.get``, blocks the loop. Then no
other handler in it goes on, nothing is ended or reported, and no hello leaves, so only another thread can notice.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from math import inf
from typing import Final

from taskqueue.client.worker.interruptible import stack_of_thread
from taskqueue.client.worker.lease_watch import LeaseWatch, Run
from taskqueue.client.worker.worker_log import WorkerLog
from taskqueue.errors import Hung

LOOK_SECONDS: Final = 1.0
"""Time that the loop may take to answer, and time between two questions."""

LOOKS_LEAST: Final = 3
"""Fewest looks without an answer, whatever the clock says: the process, or the machine, may have been stopped
meanwhile.
"""
LOOKS_MOST: Final = 10
"""Looks without an answer after which it is logged, however long the lease is: the daemon waits for 60 s."""


class LoopWatch:
    """A thread that watches the running event loop.

    Args:
        watch: knows what runs in the loop.
        log: logs a loop that is blocked, and one that goes on.
        again_seconds: time between two lines about a loop that is still blocked.
        give_up: called in the thread, once each time, when the handler hangs; None: it is only logged.
        look_seconds: see LOOK_SECONDS.
    """

    def __init__(
        self,
        watch: LeaseWatch,
        log: WorkerLog,
        again_seconds: float,
        give_up: Callable[[Hung], object] | None,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._watch = watch
        self._log = log
        self._again_seconds = again_seconds
        self._give_up = give_up
        self._look_seconds = look_seconds
        self._loop = asyncio.get_running_loop()
        self._loops_thread = threading.get_ident()
        self._closed = threading.Event()
        threading.Thread(target=self._run, name="taskqueue-loop-watch", daemon=True).start()

    def close(self) -> None:
        """Stop watching."""
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(self._look_seconds):
            # Without runs the loop is not woken, so a worker that waits costs no more.
            if self._watch.is_running:
                self._ask()

    def _ask(self) -> None:
        answered, asked_at = threading.Event(), self._loop.time()
        try:
            self._loop.call_soon_threadsafe(answered.set)
        except RuntimeError:  # The loop was closed, so no caller waits for the worker.
            self._closed.set()
            return
        looks, told_at, gives_up = 0, -inf, self._give_up
        while not (answered.wait(self._look_seconds) or self._closed.is_set()):
            looks, now = looks + 1, self._loop.time()
            runs = self._watch.blocking()
            is_over = looks >= LOOKS_LEAST and all(now >= run.task.lease_ends_at for run in runs)
            if (is_over or looks >= LOOKS_MOST) and now - told_at >= self._again_seconds:
                told_at = now
                task = runs[0].task if len(runs) == 1 else None
                self._log.blocked(task, now - asked_at, stack_of_thread(self._loops_thread))
            if is_over and runs and gives_up is not None and all(now >= self._watch.hangs_at(run) for run in runs):
                gives_up(_hung(runs[0], now))
                gives_up = None
        if told_at > -inf:
            self._log.goes_on(self._loop.time() - asked_at)


def _hung(run: Run, now: float) -> Hung:
    return Hung(
        f"a handler blocks the event loop after its lease: seconds={now - run.task.lease_ends_at:.1f} "
        f"project={run.task.project} url={run.task.url!r}"
    )
