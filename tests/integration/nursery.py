"""Daemons forked from a process that has imported everything already, which is two thirds of the CPU of a start.

    tests ──config, environment, stdout, stderr──► nursery ──fork──► a child ──fork──► the daemon
      ▲                                               └──its pid──►    └─ ends at once       │
      └────────────────────────── whose parent they are then ◄───────────────────────────────┘

The nursery has one thread, no socket of ZeroMQ and no store, so what a daemon has of it is what it would have imported.
Whatever is to be started otherwise (over a shim, with another entry, by a command) is started by a process of its own.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import IO, Final

ROOT: Final = Path(__file__).parents[2]
PR_SET_CHILD_SUBREAPER: Final = 36
MOST_BYTES: Final = 1 << 18


class Forked:
    """What is used of a Popen, of a child that somebody else has forked.

    Attributes:
        stdout: what it prints.
        returncode: None: it has not been seen to have ended.
    """

    def __init__(self, pid: int, stdout: IO[str]) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code, if it has ended."""
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, as soon as it has ended.

        Raises:
            TimeoutExpired: it has not, in so many seconds.
        """
        if self.poll() is None:
            with os.fdopen(os.pidfd_open(self.pid)) as end:
                select.select([end], [], [], timeout)
        if (code := self.poll()) is None:
            raise subprocess.TimeoutExpired("a forked daemon", timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """kill -9."""
        self.send_signal(signal.SIGKILL)


class Nursery:
    """The process that forks."""

    def __init__(self) -> None:
        # Whose parent has ended becomes a child of this process.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "tests.integration.nursery", str(theirs.fileno())]
        self._process = subprocess.Popen(command, cwd=ROOT, pass_fds=(theirs.fileno(),))
        theirs.close()

    def start(self, config: Path, environment: Mapping[str, str], log: IO[str]) -> Forked:
        """A daemon with that config file and environment, whose stderr goes to the log."""
        ours, theirs = os.pipe()
        said = json.dumps([str(config), dict(environment)]).encode()
        socket.send_fds(self._socket, [said], [theirs, log.fileno()])
        os.close(theirs)
        return Forked(int(self._socket.recv(64)), os.fdopen(ours))


@cache
def nursery() -> Nursery:
    """That of this process, which ends with it."""
    return Nursery()


def main(descriptor: int) -> None:
    """Fork for whoever has the other end, until it is closed."""
    import taskqueue.store.rocksdb.rocks_store  # noqa: F401 - so that no daemon has to
    from taskqueue.server.main import run

    with socket.socket(fileno=descriptor) as asked:
        while True:
            said, given, _, _ = socket.recv_fds(asked, MOST_BYTES, 2)
            if not said:
                return
            if is_daemon := _fork(asked):
                break
            for each in given:
                os.close(each)
    if is_daemon:
        config, environment = json.loads(said)
        for number, each in enumerate(given, start=1):
            os.dup2(each, number)
            os.close(each)
        os.environ.clear()
        os.environ.update(environment)
        sys.exit(run(config))


def _fork(asked: socket.socket) -> bool:
    """Fork, and tell the pid of the daemon; True: this is the daemon."""
    reading, writing = os.pipe()
    if child := os.fork():
        os.waitpid(child, 0)
        asked.send(os.read(reading, 64))
    elif daemon := os.fork():
        os.write(writing, str(daemon).encode())
        os._exit(0)
    os.close(reading)
    os.close(writing)
    return not child


if __name__ == "__main__":
    main(int(sys.argv[1]))
