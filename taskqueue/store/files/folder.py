"""The folder of a store, and its lock. The folder may come from elsewhere: nothing in it may lead out of it.

A name in it may be a link to another user's file, a pipe without a writer, a device; CURRENT may name any file at all;
a sparse file may claim a terabyte. So:

1. Only the file names that RocksDB makes are considered; others are left alone.
2. A file is opened relative to the folder's descriptor, without following links, and its status is checked before it is
   opened for reading: it must be a regular file, and not larger than RocksDB makes it.
3. Before RocksDB itself opens the folder, all of it is checked (``refuse_foreign``): RocksDB opens by path, follows
   links and writes to LOG, LOCK, rocksdict-config.json and new files.

The folder itself may be a link, because the operator names it. Rule 3 does not protect against a user who can still
write to the folder while RocksDB has it open.

The process that has a store open for writing holds its lock; other writers in the folder take the lock meanwhile.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from os.path import join, lexists
from typing import BinaryIO, Final

from taskqueue.errors import StoreError
from taskqueue.texts.visible_text import visible

CURRENT: Final = "CURRENT"
LOCK: Final = "LOCK"
"""File that RocksDB locks by fcntl while a store is open for writing."""

PROBE: Final = "taskqueue-probe"
"""File of one byte that is written and removed to test the disk; RocksDB ignores it."""

TABLE: Final = re.compile(r"[0-9]{1,19}\.sst")
LOG: Final = re.compile(r"[0-9]{1,19}\.log")
MANIFEST: Final = re.compile(r"MANIFEST-[0-9]{1,19}")
_ENGINE: Final = re.compile(
    r"CURRENT|IDENTITY|LOCK|LOG(\.old\.[0-9]{1,19})?|rocksdict-config\.json"
    r"|(MANIFEST|OPTIONS)-[0-9]{1,19}(\.dbtmp)?|[0-9]{1,19}\.(sst|log|blob|dbtmp)"
)

_GIBI: Final = 1 << 30
LARGEST_BYTES: Final = 4 * _GIBI
"""Size of the largest table or log.

RocksDB ends a table at 64 MiB and flushes a log at 128 MiB; with a slow disk a log grows some way beyond.
"""

LARGEST_MANIFEST_BYTES: Final = _GIBI + (_GIBI >> 4)
"""Size of the largest MANIFEST; RocksDB begins another one at 1 GiB."""

LARGEST_READ_BYTES: Final = 16 << 20
"""Size of the largest file that is read into memory whole; CURRENT has 16 bytes, OPTIONS 100 kB."""

_LARGEST: Final = {
    re.compile(r"[0-9]{1,19}\.(sst|log)"): LARGEST_BYTES,
    re.compile(r"MANIFEST-[0-9]{1,19}"): LARGEST_MANIFEST_BYTES,
    re.compile(r"CURRENT|IDENTITY|LOCK|OPTIONS-[0-9]{1,19}|rocksdict-config\.json"): LARGEST_READ_BYTES,
}

_KINDS: Final = {
    stat.S_IFLNK: "a symbolic link", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFDIR: "a folder",
    stat.S_IFBLK: "a device", stat.S_IFCHR: "a device",
}  # fmt: skip


class Folder:
    """Open folder of a store. Close it."""

    def __init__(self, path: str) -> None:
        """Open the folder.

        Raises:
            OSError: it is not there, or can't be opened.
        """
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def names(self) -> list[str]:
        """List the names of everything in the folder."""
        return os.listdir(self._descriptor)

    def open(self, name: str, flags: int = os.O_RDONLY) -> BinaryIO:
        """Open a file for reading, or with O_RDWR for locking.

        Raises:
            StoreError: it is not a regular file, or larger than RocksDB makes it.
            OSError: it is absent, or can't be read.
        """
        # An O_PATH descriptor only tells the kind of a file; opening a device, pipe or link for more may have effects.
        looked = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._descriptor)
        try:
            self._refuse(name, os.fstat(looked))
            opened = self._open_again(name, looked, flags)
        finally:
            os.close(looked)
        return os.fdopen(opened, "r+b" if flags & os.O_RDWR else "rb")

    def _open_again(self, name: str, looked: int, flags: int) -> int:
        """Open the file behind an O_PATH descriptor for reading or writing."""
        try:
            return os.open(f"/proc/self/fd/{looked}", flags | os.O_CLOEXEC)
        except FileNotFoundError:  # There is no /proc. These flags keep a pipe or link from acting.
            opened = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._descriptor)
        if os.path.samestat(os.fstat(looked), os.fstat(opened)):
            return opened
        os.close(opened)
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)

    def size(self, name: str) -> int:
        """Return the bytes of a file.

        Raises:
            OSError: it is absent.
        """
        return os.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_size

    def open_or_make(self, name: str) -> int:
        """Open a file for reading and writing, creating it if it is absent; return its descriptor.

        Raises:
            StoreError: it is not a regular file, or too large.
            OSError: it can't be opened or created.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with suppress(FileExistsError):
            return os.open(name, flags, 0o644, dir_fd=self._descriptor)
        with self.open(name, os.O_RDWR) as file:
            return os.dup(file.fileno())

    def manifest_name(self) -> str:
        """Read the file name in CURRENT.

        Raises:
            StoreError: the name is not that of a MANIFEST.
            OSError: CURRENT can't be read.
        """
        with self.open(CURRENT) as file:
            said = file.read(LARGEST_READ_BYTES).decode(errors="backslashreplace")
        name = said.removesuffix("\n")
        if not MANIFEST.fullmatch(name):
            quoted = visible(name if len(name) <= 100 else f"{name[:100]}…")
            raise StoreError(
                f'{self.path}: CURRENT names "{quoted}", not a file such as MANIFEST-000005; RocksDB did not write '
                "that: don't use this folder unless you know why it changed, and restore the store from a backup"
            )
        return name

    def refuse_foreign(self) -> None:
        """Check everything in the folder.

        Raises:
            StoreError: something is not as RocksDB makes it.
        """
        for name in self.names():
            with suppress(FileNotFoundError):  # a daemon may be using it
                status = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
                if _ENGINE.fullmatch(name) or not stat.S_ISDIR(status.st_mode):
                    self._refuse(name, status)
        if CURRENT in self.names():
            self.manifest_name()

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)

    def _refuse(self, name: str, status: os.stat_result) -> None:
        kind = _KINDS.get(stat.S_IFMT(status.st_mode))
        if kind is not None:
            raise StoreError(
                f"{self.path}: {visible(name)} is {kind}, and a store has regular files only; nothing was opened. "
                "Don't use this folder unless you know how it got there; if you do, remove it"
            )
        most = next((most for names, most in _LARGEST.items() if names.fullmatch(name)), None)
        if most is not None and status.st_size > most:
            raise StoreError(
                f"{self.path}: {visible(name)} has {status.st_size:,} bytes, and RocksDB makes no more than {most:,}; "
                "don't use this folder unless you know its origin, and restore the store from a backup"
            )


def write_byte(path: str) -> None:
    """Test the disk: write a byte to a file of its own in the folder, sync the file and remove it.

    The folder is created if it is absent.

    Raises:
        StoreError: the file is not a regular one.
        OSError: the disk refuses.
    """
    os.makedirs(path, exist_ok=True)
    with closing(Folder(path)) as folder:
        probe = folder.open_or_make(PROBE)
    try:
        os.write(probe, b"0")
        os.fsync(probe)
    finally:
        os.close(probe)
        os.unlink(join(path, PROBE))


def is_store(path: str) -> bool:
    """Whether the folder has a CURRENT of any kind."""
    return os.path.lexists(join(path, CURRENT))


def log_bytes(path: str) -> int:
    """Count the bytes of the folder's write-ahead logs; a log that is deleted meanwhile does not count.

    Raises:
        OSError: the folder can't be read.
    """
    found = 0
    for entry in os.scandir(path):
        if LOG.fullmatch(entry.name):
            with suppress(FileNotFoundError):
                found += entry.stat(follow_symlinks=False).st_size
    return found


@contextmanager
def exclusive_lock(path: str) -> Iterator[None]:
    """Hold a store's lock without opening the store, so that no daemon starts on it.

    Raises:
        StoreError: a daemon holds it, or LOCK is not a regular file.
    """
    if not lexists(join(path, LOCK)):
        yield
        return
    with closing(Folder(path)) as folder, folder.open(LOCK, os.O_RDWR) as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StoreError(f"{path}: a daemon has this store open; stop it first") from None
        yield
