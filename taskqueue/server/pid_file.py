"""A pid file: identifies the daemon's process, so that a signal never reaches another one.

    daemon         locks the file as long as it runs, and writes its pid into it
    reload, stop   ask the kernel for the lock's holder; without a lock, or if the pid differs, no process is signalled

The pid alone would be wrong as soon as the daemon is killed and its pid reused. The lock is a POSIX record
lock (fcntl(2), F_SETLK): it ends with the process, and the kernel names its holder (F_GETLK). A signal goes through a
pidfd, which stays with the process that was looked up. Without pidfds, as in gVisor, it goes to the pid right
after the check, and the lock shows when the process has ended.
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
"""Size of the longest pid file: a number and a newline."""

LONGEST_POLL: Final = 2**31 - 1
"""Milliseconds of a poll, at most: they must fit in a C int."""

LOOK_SECONDS: Final = 0.05
"""Pause between two checks whether a process without a pidfd has ended."""

FLOCK: Final = struct.Struct("hhqqi4x")
"""Layout of struct flock: type, whence, start, length, pid."""


@contextmanager
def pid_file(path: str | None) -> Iterator[None]:
    """Hold a pid file of this process, and remove it at the end; None for no pid file.

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
    """Daemon that holds a pid file. Close it.

    Attributes:
        pid: pid of its process.
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
        # Meanwhile the daemon may have ended, and its pid been reused.
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
        """Wait until the process has ended, at most ``seconds``; return whether it has."""
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
    """Open a pidfd; None if the system, its kernel or a filter of system calls does not support them.

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
    """Open and lock the file, and return its descriptor."""
    while True:
        file = _open(path, os.O_RDWR | os.O_CREAT)
        try:
            _read(path, file)
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The daemon that held it may have removed it meanwhile.
            if _is_at(path, file):
                return file
        except (BlockingIOError, PermissionError):
            other = _locked_by(file)
            os.close(file)
            raise ConfigError(f"{path}: the process with pid {other} uses this pid file; name another one") from None
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def _write_pid(path: str, file: int) -> None:
    """Write the pid; on a full disk only the lock identifies the process, which then can't be signalled."""
    try:
        os.ftruncate(file, 0)
        os.write(file, f"{os.getpid()}\n".encode())
    except OSError as error:
        log.error("pid-not-written file=%s error=%s; reload and stop can't use it", path, error.strerror)


def _holder_pid(path: str) -> int:
    file = _open(path, os.O_RDWR)
    with closing(os.fdopen(file, "rb", buffering=0)):
        said, pid = _read(path, file), _locked_by(file)
    if pid is None:
        raise ConfigError(
            f"{path}: no daemon is running with this pid file; if pid {said or 'unknown'} was one, it has ended"
        )
    if said != pid:
        raise ConfigError(f"{path}: it names {said or 'no pid'}, but process {pid} uses it; no process is signalled")
    return pid


def _open(path: str, flags: int) -> int:
    try:
        return os.open(path, flags | os.O_CLOEXEC, 0o644)
    except FileNotFoundError:
        what = "its folder does not exist" if flags & os.O_CREAT else "it does not exist; name a daemon's --pid-file"
        raise ConfigError(f"{path}: {what}") from None
    except OSError as error:
        raise ConfigError(f"{path}: can't be used as a pid file: {error.strerror}") from None


def _read(path: str, file: int) -> int | None:
    text = os.pread(file, LONGEST_BYTES, 0).strip()
    if text and not text.isdigit():
        raise ConfigError(f"{path}: this is not a pid file; it was not changed")
    return int(text) if text else None


def _locked_by(file: int) -> int | None:
    """Return the pid of the lock's holder; None without one, 0 for an invisible process, such as a container's."""
    asked = FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = FLOCK.unpack(fcntl.fcntl(file, fcntl.F_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else int(pid)


def _is_at(path: str, file: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(file))
    except FileNotFoundError:
        return False
