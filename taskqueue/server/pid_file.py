"""A pid file: identifies the daemon's process, so that a signal never reaches another one.

    daemon         locks the file as long as it runs, and writes its pid into it
    reload, stop   ask the kernel who holds the lock; without a lock, or if the pid differs, nobody is signalled

The pid alone would be wrong as soon as the daemon is killed and its pid reused. The lock is a POSIX record
lock (fcntl(2), F_SETLK): it ends with the process, and the kernel says who holds it (F_GETLK). A signal goes through a
pidfd, which stays with the process that was looked up. Where there are none, as in gVisor, it goes to the pid right
after the look, and the lock is what tells that the process has ended.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import select
import signal
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from time import sleep
from typing import Final

from taskqueue.errors import ConfigError
from taskqueue.server.clock import ticks

log = logging.getLogger("taskqueue")

LONGEST_BYTES: Final = 32
"""A pid file is a number and a newline."""

LONGEST_POLL: Final = 2**31 - 1
"""Milliseconds, which must fit in a C int."""

LOOK_SECONDS: Final = 0.05
"""Between two looks whether a process without a pidfd has ended."""

FLOCK: Final = struct.Struct("hhqqi4x")
"""struct flock: type, whence, start, length, pid."""


@contextmanager
def pid_file(path: str | None) -> Iterator[None]:
    """Hold a pid file of this process; removed at the end. None: no pid file.

    Raises:
        ConfigError: another daemon holds it, it can't be created, or it is not a pid file.
    """
    if path is None:
        yield
        return
    file = _open_locked(path)
    try:
        _write_pid(path, file)
        yield
    finally:
        with suppress(FileNotFoundError):
            if _is_at(path, file):
                os.unlink(path)
        os.close(file)


class RunningDaemon:
    """The daemon that holds a pid file. Close it.

    Attributes:
        pid: of its process.
    """

    def __init__(self, path: str) -> None:
        """Find the process.

        Raises:
            ConfigError: no daemon holds this file.
        """
        self._path = path
        self.pid = _holder_pid(path)
        try:
            self._process = _pidfd(self.pid)
        except ProcessLookupError:
            raise ConfigError(f"{path}: the daemon with pid {self.pid} has just ended") from None
        # Between the two it may have ended, and its pid have become that of another process.
        if _holder_pid(path) != self.pid:
            self.close()
            raise ConfigError(f"{path}: the daemon with pid {self.pid} has just ended")

    def send(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens if the process has ended.

        Raises:
            PermissionError: it belongs to another user.
        """
        with suppress(ProcessLookupError):
            if self._process is None:
                os.kill(self.pid, number)
            else:
                signal.pidfd_send_signal(self._process, number)

    def ends_within(self, seconds: float) -> bool:
        """Wait until the process has ended, at most ``seconds``; returns whether it has."""
        if self._process is None:
            return self._unlocked_within(seconds)
        poll = select.poll()
        poll.register(self._process, select.POLLIN)
        return bool(poll.poll(min(1000 * seconds, LONGEST_POLL)))

    def close(self) -> None:
        """Close the pidfd."""
        if self._process is not None:
            os.close(self._process)

    def _unlocked_within(self, seconds: float) -> bool:
        until = ticks() + seconds
        while self._has_lock():
            if ticks() >= until:
                return False
            sleep(LOOK_SECONDS)
        return True

    def _has_lock(self) -> bool:
        try:
            return _holder_pid(self._path) == self.pid
        except ConfigError:
            return False


def _pidfd(pid: int) -> int | None:
    """A pidfd; None if there are none: the system, its kernel or a filter of system calls does not know them.

    Raises:
        ProcessLookupError: there is no process.
    """
    try:
        return os.pidfd_open(pid)
    except (AttributeError, PermissionError):
        return None
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
        return None


def _open_locked(path: str) -> int:
    """The file's descriptor, open and locked."""
    while True:
        file = _open(path, os.O_RDWR | os.O_CREAT)
        try:
            _read(path, file)
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The daemon that had it may have removed it while it was opened here.
            if _is_at(path, file):
                return file
        except (BlockingIOError, PermissionError):
            other = _locked_by(file)
            os.close(file)
            raise ConfigError(f"{path}: the process with pid {other} has this pid file; name another one") from None
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def _write_pid(path: str, file: int) -> None:
    """Write the pid; if the disk is full only the lock identifies the process, which then can't be signalled."""
    try:
        os.ftruncate(file, 0)
        os.write(file, f"{os.getpid()}\n".encode())
    except OSError as error:
        log.error("pid-not-written file=%s error=%s; it is of no use to reload and stop", path, error.strerror)


def _holder_pid(path: str) -> int:
    file = _open(path, os.O_RDWR)
    with closing(os.fdopen(file, "rb", buffering=0)):
        said, pid = _read(path, file), _locked_by(file)
    if pid is None:
        raise ConfigError(
            f"{path}: no daemon is running with this pid file; if pid {said or 'unknown'} was one, it has ended"
        )
    if said != pid:
        raise ConfigError(
            f"{path}: it says {said or 'nothing'}, but the process with pid {pid} has it: nobody is signalled"
        )
    return pid


def _open(path: str, flags: int) -> int:
    try:
        return os.open(path, flags | os.O_CLOEXEC, 0o644)
    except FileNotFoundError:
        what = "its folder is not there" if flags & os.O_CREAT else "it is not there; name the --pid-file of a daemon"
        raise ConfigError(f"{path}: {what}") from None
    except OSError as error:
        raise ConfigError(f"{path}: no pid file: {error.strerror}") from None


def _read(path: str, file: int) -> int | None:
    """The pid in a file; None: it is empty."""
    text = os.pread(file, LONGEST_BYTES, 0).strip()
    if text and not text.isdigit():
        raise ConfigError(f"{path}: this is no pid file, and stays as it is")
    return int(text) if text else None


def _locked_by(file: int) -> int | None:
    """The pid that holds the lock; None: nobody, 0: a process that is not visible here, such as a container's."""
    asked = FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = FLOCK.unpack(fcntl.fcntl(file, fcntl.F_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else int(pid)


def _is_at(path: str, file: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(file))
    except FileNotFoundError:
        return False
