"""A handler may fork; where the child comes out of the handler, it ends.

    parent   handler ──fork──► returns ──► report
    child                └───► returns, or raises ──► end of the process

A child has a copy of the worker, but none of its threads: it can neither report nor take tasks, and would wait, or
spin, for ever. Its exit code is what it would be for a program: 0, that of ``sys.exit``, or 1 after a traceback.
"""

from __future__ import annotations

import os
import sys
import traceback
from types import TracebackType


class OwnProcess:
    """Entered around each run of a handler; made in the worker's process."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    def __enter__(self) -> None:
        """Nothing: which process this is matters only when it ends."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if os.getpid() != self._pid:
            _end(error)


def _end(error: BaseException | None) -> None:
    code = 0
    if isinstance(error, SystemExit) and isinstance(error.code, int | None):
        code = error.code or 0
    elif error is not None:
        traceback.print_exception(error)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF)
