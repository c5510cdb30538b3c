"""What is in a log of RocksDB: runs of changes, and where it can't be read.

Each record of a log is a batch, which begins with the number of its first change and how many changes it has; the next
batch goes on from there, in this log or in the next one. So a log shows what is missing, though RocksDB does not look:
it replays a log whose predecessor is gone.
"""

from __future__ import annotations

import struct
from typing import BinaryIO, Final, NamedTuple

from taskqueue.store.files.log_records import Unreadable, records_of

BATCH: Final = struct.Struct("<QI")
"""The header of a batch."""


class Run(NamedTuple):
    """Batches that follow each other.

    Attributes:
        at, end: where they begin and end: bytes from the start of the log.
        first, last: numbers of their changes, both included; an empty batch has its ``last`` before its ``first``.
    """

    at: int
    end: int
    first: int
    last: int


class WriteLog(NamedTuple):
    """A log.

    Attributes:
        name: of its file.
        number: of its file: later ones are larger.
        parts: in their order in the file.
        size: bytes of the file.
    """

    name: str
    number: int
    parts: list[Run | Unreadable]
    size: int

    @property
    def has_changes(self) -> bool:
        """There is a batch in it that is not empty."""
        return any(isinstance(part, Run) and part.first <= part.last for part in self.parts)


def read_log(name: str, file: BinaryIO) -> WriteLog:
    """Read one, as far as it goes; takes about 2 µs a batch."""
    parts: list[Run | Unreadable] = []
    at = end = first = following = -1
    size = 0
    for record in records_of(file):
        if isinstance(record, Unreadable) or len(record.data) < BATCH.size:
            if at >= 0:
                parts.append(Run(at, end, first, following - 1))
                at = -1
            unreadable = record if isinstance(record, Unreadable) else Unreadable(record.at, "a record without a batch")
            parts.append(unreadable)
            continue
        number, count = BATCH.unpack_from(record.data)
        if at >= 0 and number != following:
            parts.append(Run(at, end, first, following - 1))
            at = -1
        if at < 0:
            at, first = record.at, number
        following, end = number + count, record.end
    if at >= 0:
        parts.append(Run(at, end, first, following - 1))
    size = file.tell()
    return WriteLog(name, int(name.partition(".")[0]), parts, size)
