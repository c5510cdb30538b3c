"""Stop and reload signals: recorded by handlers, with a file descriptor that wakes a sleeping loop.

The interpreter runs handlers between two steps of the main thread, so recording needs no lock; and it writes a byte
into a socket pair (``signal.set_wakeup_fd``), so that a signal just before the loop goes to sleep ends the sleep at
once.

After the first stop signal the default handlers are restored: a second one kills a daemon that hangs.
"""

from __future__ import annotations

import contextlib
import signal
import socket
from types import FrameType, TracebackType
from typing import Final, Self

STOP: Final = (signal.SIGTERM, signal.SIGINT)
RELOAD: Final = signal.SIGHUP


class Signals:
    """Recorder of signals: a context manager, to be entered in the main thread."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._came: list[int] = []

    def __enter__(self) -> Self:
        self._old_fd = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._old = {number: signal.signal(number, self._note) for number in (*STOP, RELOAD)}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_fd)
        self._reader.close()
        self._writer.close()

    def fileno(self) -> int:
        """Return the descriptor that is readable after a signal, until ``clear_wakeup``."""
        return self._reader.fileno()

    def clear_wakeup(self) -> None:
        """Drain the wake-up descriptor."""
        with contextlib.suppress(BlockingIOError):
            self._reader.recv(4096)

    def take(self) -> list[int]:
        """Return the signals received since the last call, in order."""
        taken, self._came = self._came, []
        return taken

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came.append(number)
        if number in STOP:
            for stop in STOP:
                signal.signal(stop, signal.SIG_DFL)
