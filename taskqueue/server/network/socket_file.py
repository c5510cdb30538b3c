"""The file of an ``ipc://`` address: who may connect by it, and that one daemon alone has it. Knows nothing of ZeroMQ.

    PATH.lock ──flock──► bind under CLOSED_UMASK ──► chown to the group ──► chmod OPEN_MODE

libzmq takes an address from the daemon that has it, which then hears nothing any more, and says no word. So a daemon
locks a file beside it, which stays; the lock itself ends with the process, however it ends.
"""

from __future__ import annotations

import fcntl
import grp
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from taskqueue.errors import ConfigError, SettingError
from taskqueue.server.config import ABSTRACT

IPC: Final = "ipc://"
OPEN_MODE: Final = 0o660
CLOSED_UMASK: Final = 0o177
"""Umask of the bind: until the group is set, the daemon's user alone may connect."""


def path_of(address: str) -> Path | None:
    """Return the file of an address; None if it is not by ipc, is abstract, or libzmq makes a file for it alone."""
    has_file = address.startswith(IPC) and not address.startswith(ABSTRACT) and not address.endswith("*")
    return Path(address.removeprefix(IPC)) if has_file else None


def group_number(group: str) -> int:
    """Return the number of a group, which may be given by name or number; -1 if ``group`` is empty.

    Raises:
        SettingError: there is no such group.
    """
    if not group or group.isdecimal():
        return int(group or -1)
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise SettingError(
            f'daemon.ipc_group: there is no group "{group}" on this machine; make it, name another one, or leave the '
            "setting out, for the group of the daemon's process"
        ) from None


class SocketLock:
    """Lock of a socket file, until ``close``.

    Raises:
        ConfigError: another process has the lock, it can't be made, or the path has a file of another kind.
    """

    def __init__(self, path: Path) -> None:
        lock = path.with_name(f"{path.name}.lock")
        try:
            self._file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigError(f"daemon.bind: {lock} can't be made: {error.strerror}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists() and not stat.S_ISSOCK(path.stat().st_mode):
                raise ConfigError(f"daemon.bind: {path} is there, and is not a socket; name another path, or remove it")
        except OSError:
            self.close()
            raise ConfigError(
                f"daemon.bind: another daemon listens on {IPC}{path}; stop it, or name another path"
            ) from None
        except ConfigError:
            self.close()
            raise

    def close(self) -> None:
        """Let another process take the lock."""
        os.close(self._file)


@contextmanager
def closed_files() -> Iterator[None]:
    """Make files made within the block accessible to this user alone."""
    before = os.umask(CLOSED_UMASK)
    try:
        yield
    finally:
        os.umask(before)


def let_connect(path: Path, group: int) -> None:
    """Let the members of a group connect by a socket file; of its own group if ``group`` is -1.

    Raises:
        ConfigError: this process may not give a file to that group.
    """
    try:
        os.chown(path, -1, group)
        os.chmod(path, OPEN_MODE)
    except OSError as error:
        raise ConfigError(
            f"daemon.ipc_group: {path} can't be given to group {group}: {error.strerror}; the daemon's user must be a "
            f"member of it"
        ) from None
