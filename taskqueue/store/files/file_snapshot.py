"""A consistent snapshot of a store's files, taken while a daemon goes on writing, flushing and compacting.

    CURRENT ──names──► MANIFEST ──names──► tables (*.sst), which are immutable
                           └── later changes are in the logs (*.log), which only grow

A snapshot keeps its files open, so that they stay readable when the daemon deletes them. It needs no lock, request or
pause of the daemon. Why it is consistent:

1. RocksDB records a change of its files in the MANIFEST before it deletes any. So if CURRENT and the length of the
   MANIFEST are the same before and after all files were opened, each file that it names is open. If not, it is tried
   again; opening takes less than a millisecond, and the MANIFEST changes a few times a second.
2. A log is read up to its end, before which lies every write that had returned. A torn tail is ignored when the
   snapshot is opened, as after a crash. A log that is begun later has later writes only.

So a snapshot is what kill -9 would leave, equivalent to a checkpoint (https://github.com/facebook/rocksdb/wiki/Checkpoints)
but made from outside: docs/why/decisions/0008-file-snapshots.md says why. It is safe on a store that is broken or was
made elsewhere: nothing in it leads to a file outside of its folder, see ``folder``, and RocksDB gets links to open
files only.
"""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from errno import ENXIO
from os.path import join
from typing import BinaryIO, Final

from taskqueue.errors import StoreError
from taskqueue.store.files.damage import Damage, Files, check_files, number_of
from taskqueue.store.files.folder import CURRENT, LOG, TABLE, Folder, is_store
from taskqueue.store.files.synced_mark import SyncedMark
from taskqueue.store.files.write_log import read_log

HOLD_TRIES: Final = 1000
CHUNK_BYTES: Final = 1 << 20


class FileSnapshot:
    """Snapshot of the files in a store's folder. Close it.

    Attributes:
        path: folder of the store.
        tables, logs: files by name, open for reading.
    """

    def __init__(self, path: str) -> None:
        """Take a snapshot.

        Raises:
            StoreError: there is no store, its files change faster than they can be opened, or RocksDB did not
                make them so.
            OSError: a file can't be read.
        """
        self.path = path
        self.tables: dict[str, BinaryIO] = {}
        self.logs: dict[str, BinaryIO] = {}
        self._stack = ExitStack()
        self._manifest_name = ""
        self._manifest_bytes = 0
        if not is_store(path):
            raise StoreError(f"{path}: there is no store here; name another one with --store or --config")
        _lift_file_limit()
        self._folder = Folder(path)
        try:
            if not any(self._try_hold() for _ in range(HOLD_TRIES)):
                raise StoreError(f"{path}: the files of the store change too fast to take a snapshot; try again")
        except BaseException:
            self.close()
            raise

    @property
    def file_bytes(self) -> int:
        """Bytes of all files."""
        files = [*self.tables.values(), *self.logs.values()]
        return self._manifest_bytes + sum(os.fstat(file.fileno()).st_size for file in files)

    @property
    def log_bytes(self) -> int:
        """Bytes of the logs."""
        return sum(os.fstat(file.fileno()).st_size for file in self.logs.values())

    def damage(self, mark: SyncedMark | None) -> Damage | None:
        """Check the files against the mark that the store had before the snapshot was taken; None without damage.

        Raises:
            StoreError: the MANIFEST is of an unknown kind.
            OSError: a file can't be read.
        """
        for file in (self._manifest, *self.logs.values()):
            file.seek(0)
        sizes = {name: _size(file) for name, file in self.tables.items()}
        files = Files(self.path, self._manifest_name, self._manifest, sizes, self.logs)
        return check_files(files, mark, explained=False)

    def link_to(self, folder: str) -> None:
        """Fill a folder with symbolic links to the open files, valid in this process until the snapshot is closed.

        A log with a torn tail is copied without it, because RocksDB never stops reading some kinds of garbage.

        Raises:
            StoreError: there is no ``/proc``, through which the links lead.
        """
        if not os.path.exists("/proc/self/fd"):
            raise StoreError(f"{self.path}: reading a store needs /proc, which is not mounted here")
        newest = max(self.logs, key=number_of, default=None)
        for name, file in {**self.tables, **self.logs}.items():
            if name == newest and (end := _torn_at(name, file)) is not None:
                copy_file(file, join(folder, name), end)
            else:
                os.symlink(f"/proc/self/fd/{file.fileno()}", join(folder, name))
        self._put_manifest(folder)

    def copy_to(self, folder: str, *, trusted: bool = True) -> None:
        """Fill a folder with the files, synced; only its owner may read it.

        Tables become hard links if the file system allows it, which cost neither time nor space.

        Args:
            trusted: also link tables that another user could write to later.

        Raises:
            OSError: a file could not be written.
        """
        for name, file in self.tables.items():
            if not ((trusted or is_ours(file)) and link_file(file, join(folder, name))):
                copy_file(file, join(folder, name))
        for name, file in self.logs.items():
            copy_file(file, join(folder, name))
        self._put_manifest(folder)
        os.chmod(folder, 0o700)
        sync_folder(folder)

    def close(self) -> None:
        """Close the files."""
        self._stack.close()
        self._folder.close()

    def _try_hold(self) -> bool:
        self._stack.close()
        self.tables, self.logs = {}, {}
        try:
            name = self._folder.manifest_name()
            self._manifest = self._stack.enter_context(self._folder.open(name))
            self._manifest_name, self._manifest_bytes = name, _size(self._manifest)
            self._open_files()
            return self._manifest_bytes == _size(self._manifest) and self._folder.manifest_name() == name
        except FileNotFoundError:
            return False

    def _open_files(self) -> None:
        for name in self._folder.names():
            kind = self.tables if TABLE.fullmatch(name) else self.logs if LOG.fullmatch(name) else None
            if kind is not None:
                kind[name] = self._stack.enter_context(self._folder.open(name))

    def _put_manifest(self, folder: str) -> None:
        # The MANIFEST only grows, and its later edits name files that the snapshot has not opened.
        copy_file(self._manifest, join(folder, self._manifest_name), self._manifest_bytes)
        with open(join(folder, CURRENT), "xb") as file:
            file.write(f"{self._manifest_name}\n".encode())
            file.flush()
            os.fsync(file.fileno())


def sync_folder(path: str) -> None:
    """fsync a folder, so that the names in it survive a power cut."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def is_ours(file: BinaryIO) -> bool:
    """Whether no other user may write to the file."""
    status = os.fstat(file.fileno())
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def link_file(file: BinaryIO, to: str) -> bool:
    """Hard-link an open file, even if its old name is gone; return False if that is not possible here."""
    with suppress(OSError):
        # With a descriptor (which is ignored, because the path is absolute) it follows the link.
        os.link(f"/proc/self/fd/{file.fileno()}", to, src_dir_fd=file.fileno())
        return True
    return False


def copy_file(file: BinaryIO, to: str, length: int | None = None) -> None:
    """Copy a file, or its first ``length`` bytes, and sync it; holes stay holes."""
    end = _size(file) if length is None else length
    with open(to, "xb") as target:
        for at in _written(file.fileno(), end):
            target.seek(at)
            target.write(os.pread(file.fileno(), min(CHUNK_BYTES, end - at), at))
        target.truncate(end)
        target.flush()
        os.fsync(target.fileno())


def _torn_at(name: str, log: BinaryIO) -> int | None:
    log.seek(0)
    return read_log(name, log).torn_at


def _written(descriptor: int, end: int) -> Iterator[int]:
    """Yield offsets of the chunks that are not holes."""
    at = 0
    while at < end:
        try:
            at = os.lseek(descriptor, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == ENXIO:  # only a hole follows
                return
            raise
        if at < end:
            yield at
        at += CHUNK_BYTES


def _lift_file_limit() -> None:
    """Raise the limit of open files, since a large store has more files than a process may open by default."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
