"""SIGINT and SIGTERM of a program with an event loop: the first asks it to stop, a later one ends the process.

    first signal ──► stop() in the loop ──► 0.5 s in which another one is taken for the same ──► the next one kills

A terminal and a supervisor often send the same signal twice within milliseconds, and a process that is killed hands
nothing back: so what follows at once is not a second thought. What kills is the system's own action, which leaves no
traceback, and is not held up by threads that hang.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

SAME_SECONDS: Final = 0.5
"""So soon after the first signal another one is the same."""


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Inside, the first of STOP_SIGNALS has ``stop`` called in the running event loop.

    Afterwards the signals do what they did before or, if one of them has come, what the system does: a program that was
    told to stop is ended by the next one without a traceback. Outside of the main thread, where Python takes no
    signals, this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    first = _First(stop, asyncio.get_running_loop())
    before = {number: signal.signal(number, first) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action if first.at is None else signal.SIG_DFL)


class _First:
    """Takes signals; ``at`` is when the first one came, by a clock that never steps; None: none has."""

    def __init__(self, stop: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        self.at: float | None = None
        self._stop = stop
        self._loop = loop

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.at is None:
            self.at = now
            self._loop.call_soon_threadsafe(self._stop)
        elif now - self.at >= SAME_SECONDS:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
