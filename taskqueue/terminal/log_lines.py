"""Formats log lines on stderr: the daemon's, and a worker's."""

from __future__ import annotations

import logging
from types import TracebackType

from taskqueue.visible_text import visible, visible_lines


class LogLines(logging.Formatter):
    """One line per event, whatever it contains; a traceback follows in lines of its own."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        return visible(super().formatMessage(record))

    def formatException(
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None],
    ) -> str:
        return visible_lines(super().formatException(ei))
