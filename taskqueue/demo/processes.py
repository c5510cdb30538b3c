"""The demo's child processes: started, restarted, stopped, and never left behind.

Each runs by ``child_main``, in a process group of its own, so that Ctrl-C reaches the demo alone, which then stops
them in order. Each inherits the lock of the data folder, which is released when the last of them has ended.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from taskqueue.errors import TaskQueueError

COMMAND = "taskqueue.cli.main:main"
PATIENCE_SECONDS = 5.0
"""How long to wait for the lock while the processes of a killed demo are dying."""
STOP_SECONDS = 10.0
"""How long a process may take to stop before it is killed."""
RESTARTS = 20
"""How often a process that died is started again before the demo gives up on it."""
LOCK = "lock"


class Processes:
    """The running processes, by name.

    Args:
        folder: for their logs.
        lock: a file descriptor that they inherit.
    """

    def __init__(self, folder: Path, lock: int) -> None:
        self._folder = folder
        self._lock = lock
        self._commands: dict[str, Sequence[str]] = {}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.restarts = 0

    def start(self, name: str, *command: str) -> None:
        """Start MODULE:FUNCTION ARGUMENT... with a new log."""
        self.log(name).write_bytes(b"")
        self._commands[name] = command
        self._launch(name)

    def log(self, name: str) -> Path:
        """The log file of a process."""
        return self._folder / f"{name}.log"

    def pid(self, name: str) -> int:
        return self._running[name].pid

    def dead(self) -> dict[str, str]:
        """How processes that are no longer running ended, by name."""
        codes = {name: process.poll() for name, process in self._running.items()}
        return {name: _ending(code) for name, code in codes.items() if code is not None}

    def revive(self, name: str) -> None:
        """Restart a process that died.

        Raises:
            TaskQueueError: it has been restarted too often.
        """
        self.restarts += 1
        if self.restarts > RESTARTS:
            raise TaskQueueError(f"{name} doesn't stay alive: {self.last_words(name)}")
        _wait(self._running[name], 0)
        self._launch(name)

    def last_words(self, name: str) -> str:
        """The last line of a process's log."""
        lines = self.log(name).read_text(errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip()]
        return said[-1] if said else f"nothing in {self.log(name)}"

    def stop(self, names: Iterable[str]) -> None:
        """Ask these processes to stop, and wait for them."""
        running = [self._running[name] for name in names if name in self._running]
        for process in running:
            process.terminate()
        until = time.monotonic() + STOP_SECONDS
        for process in running:
            _wait(process, until - time.monotonic())
        for name in names:
            self._running.pop(name, None)

    def stop_all(self) -> None:
        """Stop all processes, the last started first."""
        for name in reversed(list(self._running)):
            self.stop([name])

    def kill_all(self) -> None:
        """Kill all processes."""
        for process in self._running.values():
            _wait(process, 0)

    def _launch(self, name: str) -> None:
        with self.log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                [sys.executable, "-m", "taskqueue.demo.child_main", *self._commands[name]],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                process_group=0,
                # What the environment says of another daemon is not meant for this one.
                env={name: value for name, value in os.environ.items() if not name.startswith("TASKQUEUE_")},
                pass_fds=(self._lock,),
            )


@contextmanager
def locked(folder: Path) -> Iterator[int]:
    """Lock the data folder; yields a file descriptor that keeps the lock in every process that inherits it.

    Raises:
        TaskQueueError: another demo has the lock.
    """
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        _lock(lock, folder)
        yield lock
    finally:
        os.close(lock)


def _lock(lock: int, folder: Path) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise TaskQueueError(
                    f"another demo is running with {folder}; stop it, or name another folder with --data"
                ) from None
            time.sleep(0.05)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        process.wait(max(0.0, seconds))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    finally:
        if process.stdin:
            process.stdin.close()


def _ending(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"
