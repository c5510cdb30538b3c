"""The synced mark: a small file beside tables and logs that says up to which change the store was known to be synced.

After each sync it gets the number of the last change that the sync certainly covered. It is written without fsync: the
change was synced before, so after a power cut the mark may lag, but is never ahead. RocksDB ignores the file.

Purpose: RocksDB takes a log that ends too early, or is missing, for one that was never longer. A store that has fewer
changes than its mark says is damaged. A store without a mark, or with another store's mark, was never opened here (it
is a copy), so nothing is concluded.
"""

from __future__ import annotations

import os
import struct
import time
import zlib
from contextlib import closing, suppress
from typing import Final, NamedTuple

from taskqueue.store.files.folder import LOG, Folder

NAME: Final = "taskqueue-synced"
"""File name of the mark."""
IDENTITY: Final = "IDENTITY"
"""File of RocksDB with the unique id of a store; RocksDB creates it if it is absent."""

_LAYOUT: Final = struct.Struct("<8sQQQQQd36s36s")
_CHECKSUM: Final = struct.Struct("<I")
_MAGIC: Final = b"tqsync 2"


class SyncedMark(NamedTuple):
    """Content of the mark.

    Attributes:
        seq: number of the last change that was certainly synced.
        opened_seq: number of the last change when the store was opened; all changes up to it were in tables then.
        first_log: number of the log that was begun at the opening.
        manifest: file name of the MANIFEST that was begun at the opening.
        manifest_bytes: length of the MANIFEST when all families had been created; it only grows.
        at: unix seconds when the mark was written.
        boot_id: boot of the machine in which the mark was written; empty if unknown.
    """

    seq: int
    opened_seq: int
    first_log: int
    manifest: str
    manifest_bytes: int
    at: float
    boot_id: str


def read_mark(folder: Folder) -> SyncedMark | None:
    """Read the mark of a store; None if it is absent, torn, or another store's.

    Raises:
        StoreError: the mark or IDENTITY is not a regular file.
    """
    try:
        with folder.open(NAME) as file, folder.open(IDENTITY) as identity:
            content = file.read(_LAYOUT.size + _CHECKSUM.size)
            store = identity.read(36)
    except OSError:
        return None
    packed = content[: _LAYOUT.size]
    if len(content) < _LAYOUT.size + _CHECKSUM.size or content != packed + _CHECKSUM.pack(zlib.crc32(packed)):
        return None
    magic, seq, opened_seq, first_log, manifest, manifest_bytes, at, boot_id, marked = _LAYOUT.unpack(packed)
    if magic != _MAGIC or marked != store.ljust(36, b"\0"):
        return None
    return SyncedMark(
        seq,
        opened_seq,
        first_log,
        f"MANIFEST-{manifest:06d}",
        manifest_bytes,
        at,
        boot_id.rstrip(b"\0").decode(errors="replace"),
    )


def mark_of_opening(path: str, seq: int, boot_id: str) -> SyncedMark:
    """Make the mark of a store that has just been opened for writing, whose last change has number ``seq``.

    Raises:
        StoreError: its files are not as RocksDB makes them.
        OSError: they can't be read.
    """
    with closing(Folder(path)) as folder:
        logs = [int(name.partition(".")[0]) for name in folder.names() if LOG.fullmatch(name)]
        name = folder.manifest_name()
        return SyncedMark(seq, seq, max(logs, default=0), name, folder.size(name), time.time(), boot_id)


class SyncedMarkWriter:
    """Writer of an open store's mark."""

    def __init__(self, path: str, mark: SyncedMark) -> None:
        """Replace the mark.

        Raises:
            StoreError: the mark or IDENTITY is not a regular file.
            OSError: the mark could not be written.
        """
        with closing(Folder(path)) as folder:
            with folder.open(IDENTITY) as file:
                self._identity = file.read(36)
            self._file = folder.open_or_make(NAME)
        self._mark = mark
        try:
            self._put(mark)
        except BaseException:
            self.close()
            raise

    def advance(self, seq: int) -> None:
        """Record that every change up to ``seq`` is synced. Costs 3 µs of CPU.

        Disk errors are ignored, because the older mark stays true.
        """
        with suppress(OSError):
            self._put(self._mark._replace(seq=seq, at=time.time()))

    def sync(self) -> None:
        """fsync the mark itself.

        Raises:
            OSError: it failed.
        """
        os.fsync(self._file)

    def close(self) -> None:
        """Close the file; idempotent."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _put(self, mark: SyncedMark) -> None:
        number = int(mark.manifest.rpartition("-")[2] or 0)
        packed = _LAYOUT.pack(
            _MAGIC,
            mark.seq,
            mark.opened_seq,
            mark.first_log,
            number,
            mark.manifest_bytes,
            mark.at,
            mark.boot_id.encode(),
            self._identity,
        )
        os.pwrite(self._file, packed + _CHECKSUM.pack(zlib.crc32(packed)), 0)
