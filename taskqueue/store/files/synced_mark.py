"""How far a store was safe the last time that anybody looked: a small file beside its tables and logs.

After each sync it gets the number of the last change that the sync is sure to have covered. It is written, not synced:
what the file says was true before it was written, so after a power cut it may be behind, never ahead. RocksDB knows
nothing of it and leaves it alone.

What it is good for: RocksDB takes a log that ends too early, or is not there, for one that was never longer. A store
that has fewer changes than its mark says was damaged. One without a mark, or with that of another store, was never
begun here, as a copy: it says nothing.
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
IDENTITY: Final = "IDENTITY"
"""RocksDB's own name for a store, in a file; it makes one for a store that has none."""

_LAYOUT: Final = struct.Struct("<8sQQQQQd36s36s")
_CHECKSUM: Final = struct.Struct("<I")
_MAGIC: Final = b"tqsync 2"


class SyncedMark(NamedTuple):
    """What the file says.

    Attributes:
        seq: number of the last change that is sure to have been safe.
        opened_seq: that of the last change when the store was opened; all of these were in tables then.
        first_log: number of the log that was begun then.
        manifest: name of the MANIFEST that was begun then.
        manifest_bytes: how long it was when all families had been made; it only grows.
        at: unix seconds when it was written.
        boot_id: run of the machine in which it was written; empty: not known.
    """

    seq: int
    opened_seq: int
    first_log: int
    manifest: str
    manifest_bytes: int
    at: float
    boot_id: str


def read_mark(folder: Folder) -> SyncedMark | None:
    """Of a store; None: there is none, it is torn, or it is that of another store.

    Raises:
        StoreError: what has its name is no file.
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
    """Of a store that has just been opened for writing, when its last change has this number.

    Raises:
        StoreError: its files are not as RocksDB makes them.
        OSError: they can't be read.
    """
    with closing(Folder(path)) as folder:
        logs = [int(name.partition(".")[0]) for name in folder.names() if LOG.fullmatch(name)]
        name = folder.manifest_name()
        return SyncedMark(seq, seq, max(logs, default=0), name, folder.size(name), time.time(), boot_id)


class SyncedMarkWriter:
    """Writes the mark of a store that is open."""

    def __init__(self, path: str, mark: SyncedMark) -> None:
        """Put a mark in the place of what is there.

        Raises:
            StoreError: what has its name, or that of what names the store, is no file.
            OSError: it could not be written.
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
        """Everything up to this change is safe. Costs 3 µs of CPU.

        Whatever the disk says: the older mark is still true.
        """
        with suppress(OSError):
            self._put(self._mark._replace(seq=seq, at=time.time()))

    def sync(self) -> None:
        """Make the mark itself safe from a power cut.

        Raises:
            OSError: it is not.
        """
        os.fsync(self._file)

    def close(self) -> None:
        """Let go of the file. Nothing happens the second time."""
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
