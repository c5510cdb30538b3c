"""Log lines on stderr, of the daemon, workers and the web process: one line per event.

    any thread ──line──► stderr, if it takes the line at once
                  └────► queue, MOST_BYTES ──► thread ──► stderr
                             └── full: dropped and counted; "log-lost lines=…" follows when there is room again

The reader of stderr may stall: a paused log driver, ``| less``. The program never waits for it, not even at its end:
lines that are not written within STUCK_SECONDS of the last progress are lost then.
"""

from __future__ import annotations

import logging
import os
import select
import stat
import sys
import threading
from collections import deque
from contextlib import suppress
from io import UnsupportedOperation
from types import TracebackType
from typing import Final, TextIO

from taskqueue.texts.visible_text import visible, visible_lines

MOST_BYTES: Final = 1 << 20
"""Queued lines, in bytes: about ten thousand lines."""

LINE_BYTES: Final = 16 << 10
"""Longest line, or lines of one event with its traceback, in bytes; more is cut in the middle."""

CHUNK_BYTES: Final = 64 << 10
"""Bytes per write."""

STUCK_SECONDS: Final = 2.0
"""Time without progress at the end of a program after which the reader counts as stalled."""


class LogLines(logging.Formatter):
    """Formatter with one line per event, whatever it contains; a traceback or stack follows in lines of its own."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        return visible(super().formatMessage(record))

    def formatException(
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None],
    ) -> str:
        return visible_lines(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:
        return visible_lines(super().formatStack(stack_info))


class LogHandler(logging.Handler):
    """Write log lines to stderr without ever waiting for its reader.

    Args:
        descriptor: file to write to; None: the present stderr.
        most_bytes: bound of the queued lines.
        stuck_seconds: see STUCK_SECONDS.
    """

    def __init__(
        self, descriptor: int | None = None, *, most_bytes: int = MOST_BYTES, stuck_seconds: float = STUCK_SECONDS
    ) -> None:
        super().__init__()
        self.setFormatter(LogLines())
        self._descriptor = sys.__stderr__.fileno() if descriptor is None and sys.__stderr__ else descriptor
        self._is_file = self._descriptor is not None and stat.S_ISREG(os.fstat(self._descriptor).st_mode)
        self._is_terminal = self._descriptor is not None and os.isatty(self._descriptor)
        self._most_bytes = most_bytes
        self._stuck_seconds = stuck_seconds
        self._begin()
        # A child has the queue, but not the thread, and a lock that another thread may have held.
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._lost = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Queue the line of an event, or count it as lost."""
        try:
            line = self._line(record)
        except Exception:
            self.handleError(record)
            return
        with self._changed:
            if self._takes_at_once(line):
                self._write(line)
                return
            if self._descriptor is None or self._bytes + len(line) > self._most_bytes:
                self._lost += 1
                return
            self._put(line)
            if self._thread is None:
                self._thread = threading.Thread(target=self._write_all, name="taskqueue-log", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait until all lines are written, or the reader stalls."""
        with self._changed:
            while self._bytes > 0 and self._changed.wait(self._stuck_seconds):
                pass

    def close(self) -> None:
        """Write the remaining lines, unless the reader stalls."""
        self.flush()
        super().close()

    def _line(self, record: logging.LogRecord) -> bytes:
        return _cut(self.format(record)).encode(errors="backslashreplace") + b"\n"

    def _takes_at_once(self, line: bytes) -> bool:
        """Return whether the queue is empty and a write returns at once: a pipe with room takes PIPE_BUF bytes."""
        # A terminal with room for a byte reports that it has room, and then waits with the rest.
        if self._descriptor is None or self._is_terminal or self._bytes or self._lost:
            return False
        if self._is_file:
            return True
        ready = select.poll()
        ready.register(self._descriptor, select.POLLOUT)
        return len(line) <= select.PIPE_BUF and bool(ready.poll(0))

    def _put(self, line: bytes) -> None:
        self._lines.append(line)
        self._bytes += len(line)

    def _write_all(self) -> None:
        """Write queued lines, in the thread."""
        while True:
            with self._changed:
                while not self._lines:
                    self._changed.wait()
                lines = b"".join(self._lines)
                self._lines.clear()
            self._write(lines)
            with self._changed:
                self._bytes -= len(lines)
                if self._lost and not self._lines:
                    self._put(self._loss())
                self._changed.notify_all()

    def _write(self, lines: bytes) -> None:
        """Write all bytes, however long that takes. On a full disk they are lost, as there is no place to report it."""
        assert self._descriptor is not None
        with suppress(OSError):
            _write_whole(self._descriptor, lines)

    def _loss(self) -> bytes:
        message = f"log-lost lines={self._lost}; the reader of stderr stalled"
        self._lost = 0
        return self._line(logging.LogRecord("taskqueue", logging.WARNING, "", 0, message, None, None))


def write_line(stream: TextIO | None, line: str, seconds: float = STUCK_SECONDS) -> None:
    """Write a line that is not part of the log, unless the stream's reader stalls for ``seconds``.

    Args:
        stream: None if the program was started without it; the line is then lost.

    Raises:
        OSError: the line can't be written, as on a full disk.
    """
    if stream is None:
        return
    shown = f"{visible(line)}\n"
    try:
        descriptor = stream.fileno()
    except UnsupportedOperation:  # the program has replaced the stream
        stream.write(shown)
        return
    line_bytes = shown.encode(errors="backslashreplace")
    if os.isatty(descriptor):  # May wait although it has room: see ``LogHandler``.
        writing = threading.Thread(target=_write_to_terminal, args=(descriptor, line_bytes), daemon=True)
        writing.start()
        writing.join(seconds)
        return
    waiting = select.poll()
    waiting.register(descriptor, select.POLLOUT)
    while line_bytes and waiting.poll(1000 * seconds):
        # A write of PIPE_BUF bytes never waits in a pipe with room (POSIX, write).
        line_bytes = line_bytes[os.write(descriptor, line_bytes[: select.PIPE_BUF]) :]


def _write_to_terminal(descriptor: int, line: bytes) -> None:
    with suppress(OSError):  # The terminal was closed.
        _write_whole(descriptor, line)


def _write_whole(descriptor: int, left: bytes) -> None:
    while left:
        try:
            left = left[os.write(descriptor, left[:CHUNK_BYTES]) :]
        except BlockingIOError:  # Another program that shares the terminal may have made it non-blocking.
            waiting = select.poll()
            waiting.register(descriptor, select.POLLOUT)
            waiting.poll()


def _cut(line: str) -> str:
    """Cut the middle of a long line."""
    if len(line) <= LINE_BYTES:
        return line
    half = LINE_BYTES // 2
    return f"{line[:half]} … {len(line) - 2 * half} characters … {line[-half:]}"
