"""The files of a store as they are at one moment, though a daemon goes on writing, flushing and compacting.

    CURRENT ──names──► MANIFEST ──names──► tables (*.sst), which never change
                           └── what came later is in the logs (*.log), which only grow

An image holds its files open, so that they stay readable when the daemon deletes them, and takes nothing from it: no
lock, no request, no pause. What makes it one moment:

1. RocksDB writes a change of its files to the MANIFEST before it deletes any. So if CURRENT and the length of the
   MANIFEST are the same before and after all files were opened, each file that it needs was there, and is held.
   If not, it is tried again; holding takes less than a millisecond, and the MANIFEST changes some times a second.
2. A log is read up to where it ends. Every write that had returned before lies before that; a torn end is what a crash
   leaves, too, and is ignored when the image is opened. A log that is begun later has later writes only.

So an image is what kill -9 would leave, and all that a checkpoint (https://github.com/facebook/rocksdb/wiki/Checkpoints)
is, without a part of the daemon in it.
"""

from __future__ import annotations

import os
import resource
import shutil
from contextlib import ExitStack, suppress
from errno import ENOENT
from os.path import getsize, join
from typing import BinaryIO, Final

from taskqueue.errors import StoreError

CURRENT: Final = "CURRENT"
TABLE: Final = ".sst"
LOG: Final = ".log"
HOLD_TRIES: Final = 1000


class Image:
    """Of the store in a folder; see the module. Close it.

    Attributes:
        path: of the store.
        tables, logs: names of files, open for reading.
    """

    def __init__(self, path: str) -> None:
        """Take one.

        Raises:
            StoreError: there is no store, or its files change faster than they can be opened.
            OSError: they can't be read.
        """
        self.path = path
        self.tables: dict[str, BinaryIO] = {}
        self.logs: dict[str, BinaryIO] = {}
        self._stack = ExitStack()
        self._manifest_name = ""
        self._manifest = b""
        if not is_store(path):
            raise StoreError(f"{path}: there is no store here; name another one with --store or --config")
        _lift_file_limit()
        if not any(self._try_hold() for _ in range(HOLD_TRIES)):
            raise StoreError(f"{path}: the files of the store change too fast to be held; try again")

    @property
    def file_bytes(self) -> int:
        """Of all its files."""
        files = [*self.tables.values(), *self.logs.values()]
        return len(self._manifest) + sum(os.fstat(file.fileno()).st_size for file in files)

    @property
    def log_bytes(self) -> int:
        """Of its logs."""
        return sum(os.fstat(file.fileno()).st_size for file in self.logs.values())

    def link_to(self, folder: str) -> None:
        """Fill a folder with links to the files, good as long as this image is open, in this process."""
        for name, file in {**self.tables, **self.logs}.items():
            os.symlink(f"/proc/self/fd/{file.fileno()}", join(folder, name))
        self._put_manifest(folder)

    def copy_to(self, folder: str) -> None:
        """Fill a folder with the files, safe from a power cut.

        Tables become hard links, which cost neither time nor space, where the file system allows that.

        Raises:
            OSError: it could not be written.
        """
        for name, file in self.tables.items():
            self._link_or_copy(name, file, join(folder, name))
        for name, file in self.logs.items():
            _copy(file, join(folder, name))
        self._put_manifest(folder)
        shutil.copymode(self.path, folder)
        sync_folder(folder)

    def close(self) -> None:
        """Let go of the files."""
        self._stack.close()

    def _try_hold(self) -> bool:
        self._stack.close()
        self.tables, self.logs = {}, {}
        try:
            name = _manifest_name(self.path)
            before = getsize(join(self.path, name))
            self._open_files()
            with open(join(self.path, name), "rb") as file:
                manifest = file.read()
            self._manifest_name, self._manifest = name, manifest
            return before == len(manifest) and _manifest_name(self.path) == name
        except FileNotFoundError:
            return False

    def _open_files(self) -> None:
        for name in os.listdir(self.path):
            if name.endswith((TABLE, LOG)):
                kind = self.tables if name.endswith(TABLE) else self.logs
                file = open(join(self.path, name), "rb")  # noqa: SIM115
                kind[name] = self._stack.enter_context(file)

    def _link_or_copy(self, name: str, file: BinaryIO, to: str) -> None:
        # It may be gone, on another disk, or on one that has no links.
        with suppress(OSError):
            os.link(join(self.path, name), to)
            return
        _copy(file, to)

    def _put_manifest(self, folder: str) -> None:
        _put(join(folder, self._manifest_name), self._manifest)
        _put(join(folder, CURRENT), f"{self._manifest_name}\n".encode())


def is_store(path: str) -> bool:
    """There is a store in the folder."""
    return os.path.isfile(join(path, CURRENT))


def sync_folder(path: str) -> None:
    """Make the names in a folder safe from a power cut."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _manifest_name(path: str) -> str:
    with open(join(path, CURRENT), encoding="ascii") as file:
        name = file.read().strip()
    if not name:
        raise FileNotFoundError(ENOENT, "names no manifest", join(path, CURRENT))
    return name


def _copy(file: BinaryIO, to: str) -> None:
    file.seek(0)
    with open(to, "wb") as target:
        shutil.copyfileobj(file, target, 1 << 20)
        target.flush()
        os.fsync(target.fileno())


def _put(path: str, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _lift_file_limit() -> None:
    """A large store has more files than a process may open at first."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
