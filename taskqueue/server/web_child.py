"""The web process that ``daemon start --web`` starts and watches: a client like any other, in a process of its own.

    started ──► runs ──ends──► pause, longer each time ──► started again
                 ├──stop──► SIGTERM ──► ended
                 └──ends with HOPELESS──► not started again

A thread waits for its end, so the loop never does. The process reads its stdin, a pipe that only the daemon keeps
open, so when the daemon dies for any reason, the web process ends, too.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from taskqueue.access.key_file import KeyFile, key_line

log = logging.getLogger("taskqueue")

FIRST_PAUSE_SECONDS: Final = 0.5
LONGEST_PAUSE_SECONDS: Final = 60.0
STEADY_SECONDS: Final = 60.0
"""Seconds of running after which the process is started again with the first pause."""
STOP_SECONDS: Final = 5.0
"""Seconds that the process may take to end before it is killed."""

HOPELESS: Final = 2
"""Exit status of a command that would fail again: an option is wrong, or the extra [web] is not installed."""

EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "*": "127.0.0.1", "::": "127.0.0.1"}
"""Addresses by which this machine reaches a socket that listens on all hosts.

A socket of IPv6 takes IPv4, too, and many containers have no ``::1``.
"""


class WebChild:
    """Supervisor of the web process until ``close``.

    Args:
        endpoint: address on which the daemon listens.
        bind: HOST:PORT on which the web process listens; empty for no web process.
        key: key that the web process shows to the daemon, sent to its stdin; None without keys.
    """

    def __init__(self, endpoint: str, bind: str, key: KeyFile | None = None) -> None:
        self._key = key
        self._command = [sys.executable, "-m", "taskqueue", "web", "start", "--daemon", reachable(endpoint)]
        self._command += ["--bind", bind, "--until-stdin-ends"]
        self._command += ["--key", ""] if key is None else ["--key-from-stdin"]
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="web", daemon=True) if bind else None
        if self._thread is not None:
            self._thread.start()

    def close(self) -> None:
        """End the process; after STOP_SECONDS by force."""
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
            except OSError as error:  # the system has no memory or process left for it
                status, how = 0, f"error={error.strerror!r}"
            if self._closing.is_set():
                return
            if status == HOPELESS:
                log.error("web-ended %s; not started again: correct the reported problem, and restart the daemon", how)
                return
            pause = FIRST_PAUSE_SECONDS if time.monotonic() - began_at >= STEADY_SECONDS else pause
            log.error("web-ended %s; started again in %g s", how, pause)
            self._closing.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _start(self) -> subprocess.Popen[bytes] | None:
        with self._lock:
            if self._closing.is_set():
                return None
            # Its output goes to the daemon log.
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=sys.stderr)
            if self._key is not None and self._process.stdin is not None:
                with suppress(OSError):  # it has ended already
                    self._process.stdin.write(key_line(self._key))
                    self._process.stdin.flush()
        log.info("web-started pid=%d", self._process.pid)
        return self._process


def reachable(endpoint: str) -> str:
    """Return the address at which this machine reaches a daemon that listens there."""
    parts = urlsplit(endpoint)
    host = (parts.hostname or "").strip("[]")
    return f"tcp://{EVERYWHERE[host]}:{parts.port}" if parts.scheme == "tcp" and host in EVERYWHERE else endpoint
