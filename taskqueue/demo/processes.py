"""Processes of the demo: modules that run as programs, are restarted, stopped, and never left behind.

The demo holds the other end of each process's standard input. When the demo has ended, even by kill -9, reading ends,
and the process kills itself at once: no orphan keeps the store, the port or the terminal. Each process has its own
process group, so that Ctrl-C reaches the demo alone, and inherits the data folder's lock, which is free once all have
ended.
"""

from __future__ import annotations

import fcntl
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from taskqueue.errors import TaskQueueError

LOCK_SECONDS = 5.0
"""Longest wait for the lock while the processes of a killed demo end."""
STOP_SECONDS = 10.0
"""Time that a process may take to stop before it is killed."""
RESTARTS = 20
"""Restarts of dead processes after which the demo gives up."""


class Processes:
    """Running processes by name.

    Args:
        folder: folder of their logs.
        lock: file descriptor that they inherit.
    """

    def __init__(self, folder: Path, lock: int) -> None:
        self._folder = folder
        self._lock = lock
        self._commands: dict[str, list[str]] = {}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._restarts = 0

    def start(self, name: str, *command: str) -> None:
        """Start ``python -m COMMAND...`` with a new log."""
        self._log(name).write_bytes(b"")
        self._commands[name] = [sys.executable, "-m", __name__, *command]
        self._launch(name)

    def pid(self, name: str) -> int:
        return self._running[name].pid

    def dead(self) -> dict[str, str]:
        """Describe how processes ended that no longer run, by name."""
        codes = {name: process.poll() for name, process in self._running.items()}
        return {name: _ending(code) for name, code in codes.items() if code is not None}

    def restart(self, name: str) -> None:
        """Restart a process that died.

        Raises:
            TaskQueueError: too many have died.
        """
        self._restarts += 1
        if self._restarts > RESTARTS:
            raise TaskQueueError(f"the {name} doesn't stay alive: {self.last_words(name)}")
        _wait(self._running[name], 0)
        self._launch(name)

    def last_words(self, name: str) -> str:
        """Return the last line of a process's log."""
        lines = [*filter(str.strip, self._log(name).read_text(errors="replace").split("\n"))]
        return lines[-1].strip() if lines else f"nothing in {self._log(name)}"

    def stop(self, *names: str) -> None:
        """Stop these processes, and wait for them."""
        stopping = [self._running[name] for name in names if name in self._running]
        for process in stopping:
            process.terminate()
        until = time.monotonic() + STOP_SECONDS
        for process in stopping:
            _wait(process, until - time.monotonic())

    def kill_all(self) -> None:
        """Kill the processes that still run."""
        for process in self._running.values():
            _wait(process, 0)

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _launch(self, name: str) -> None:
        with self._log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                self._commands[name],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                process_group=0,
                env=_environment(),
                pass_fds=(self._lock,),
            )


def _environment() -> dict[str, str]:
    """Environment of the processes: without TASKQUEUE_ variables of the user, and with a short fetcher timeout."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TASKQUEUE_")}
    return kept | {"TASKQUEUE_DAEMON_FETCHER_TIMEOUT": "10"}


@contextmanager
def locked(folder: Path) -> Iterator[int]:
    """Lock the data folder; yield a file descriptor that keeps the lock in every process that inherits it.

    Raises:
        TaskQueueError: another demo has the lock.
    """
    with open(folder / "lock", "w") as lock:
        until = time.monotonic() + LOCK_SECONDS
        while not _has_locked(lock.fileno()):
            if time.monotonic() > until:
                raise TaskQueueError(f"another demo runs with {folder}; stop it, or name another folder with --data")
            time.sleep(0.05)
        yield lock.fileno()


def _has_locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        process.wait(max(0.0, seconds))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdin:
        process.stdin.close()


def _ending(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"


def _die_with_demo() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=_die_with_demo, daemon=True).start()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
