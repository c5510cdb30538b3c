"""Runs a command of the demo in this process, and dies with whoever started it.

The demo holds the other end of this process's standard input. When the demo is gone, however it went, kill -9
included, reading ends, and so does this process, at once: no orphan keeps the store, the port or the terminal.

    python -m taskqueue.demo.child_main MODULE:FUNCTION ARGUMENT...
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from importlib import import_module


def main() -> object:
    """Call a function named on the command line as a program's main function; the process dies with its parent."""
    target, *arguments = sys.argv[1:]
    module, _, function = target.partition(":")
    threading.Thread(target=_die_with_starter, name="leash", daemon=True).start()
    sys.argv = [function, *arguments]
    return getattr(import_module(module), function)()


def _die_with_starter() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())  # type: ignore[arg-type]
