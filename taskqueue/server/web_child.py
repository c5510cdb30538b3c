"""The web process that ``scheduler --web`` starts and watches: a client like any other, and so apart from the daemon.

    started ──► runs ──ends──► pause, longer each time ──► started again
                 ├──stop──► SIGTERM ──► ended
                 └──ends with HOPELESS──► not started again

A thread waits for its end, so the loop never does. The process reads its stdin, a pipe that only this one holds open:
when the daemon dies, however it does, the web process ends, too. This module knows nothing of what it serves.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from typing import Final
from urllib.parse import urlsplit

log = logging.getLogger("taskqueue")

FIRST_PAUSE_SECONDS: Final = 0.5
LONGEST_PAUSE_SECONDS: Final = 60.0
STEADY_SECONDS: Final = 60.0
"""Whoever ran for so long is started again after the first pause."""
STOP_SECONDS: Final = 5.0
"""How long it may take to end before it is killed."""

HOPELESS: Final = 2
"""Exit status of a command that would fail again: an option is wrong, or the extra [web] is not installed."""

EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "*": "127.0.0.1", "::": "127.0.0.1"}
"""Hosts that a socket listens on, and where it is reached from this machine. A socket of IPv6 takes IPv4, too, and many
containers have no ``::1``.
"""


class WebChild:
    """Runs it from now until ``close``.

    Args:
        endpoint: where the daemon listens.
        bind: where it shall listen, HOST:PORT; empty: there is none.
    """

    def __init__(self, endpoint: str, bind: str) -> None:
        self._command = [sys.executable, "-m", "taskqueue", "web", "start", "--daemon", reachable(endpoint)]
        self._command += ["--bind", bind, "--until-stdin-ends"]
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="web", daemon=True) if bind else None
        if self._thread is not None:
            self._thread.start()

    def close(self) -> None:
        """End it; after STOP_SECONDS by force."""
        with self._lock:
            self._closing.set()
            process = self._process
        if process is not None:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while not self._closing.is_set():
            began_at = time.monotonic()
            try:
                process = self._start()
                status = process.wait() if process is not None else 0
                how = f"pid={process.pid} exit={status}" if process is not None else ""
            except OSError as error:  # no memory or no process is left for it
                status, how = 0, f"error={error.strerror!r}"
            if self._closing.is_set():
                return
            if status == HOPELESS:
                log.error("web-ended %s; not started again: mend what it said, and start the daemon anew", how)
                return
            pause = FIRST_PAUSE_SECONDS if time.monotonic() - began_at >= STEADY_SECONDS else pause
            log.error("web-ended %s; started again in %g s", how, pause)
            self._closing.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _start(self) -> subprocess.Popen[bytes] | None:
        with self._lock:
            if self._closing.is_set():
                return None
            # What it says goes where the daemon's log goes.
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=sys.stderr)
        log.info("web-started pid=%d", self._process.pid)
        return self._process


def reachable(endpoint: str) -> str:
    """The address at which this machine reaches a daemon that listens there."""
    parts = urlsplit(endpoint)
    host = (parts.hostname or "").strip("[]")
    return f"tcp://{EVERYWHERE[host]}:{parts.port}" if parts.scheme == "tcp" and host in EVERYWHERE else endpoint
