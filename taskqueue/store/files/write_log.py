"""Reads a write-ahead log: runs of consecutive changes, and unreadable places.

Each record of a log is a batch, which begins with the number of its first change and its number of changes; the next
batch continues from there, in this log or in the next one. So a log shows what is missing, which RocksDB does not
check: it replays a log whose predecessor is gone.
"""

from __future__ import annotations

import struct
from typing import BinaryIO, Final, NamedTuple

from taskqueue.store.files.log_records import Unreadable, records_of

BATCH: Final = struct.Struct("<QI")
"""The header of a batch: number of its first change, number of changes."""


class Run(NamedTuple):
    """Consecutive batches without a gap.

    Attributes:
        at, end: offsets of their start and end in the log.
        first, last: numbers of the first and last change; an empty batch has its ``last`` before its ``first``.
    """

    at: int
    end: int
    first: int
    last: int


class WriteLog(NamedTuple):
    """The content of a log.

    Attributes:
        name: of its file.
        number: of its file; grows from log to log.
        parts: in their order in the file.
        size: bytes of the file.
    """

    name: str
    number: int
    parts: list[Run | Unreadable]
    size: int

    @property
    def has_changes(self) -> bool:
        """Whether there is a batch that is not empty."""
        return any(isinstance(part, Run) and part.first <= part.last for part in self.parts)

    @property
    def torn_at(self) -> int | None:
        """Where its last whole batch ends, if something unreadable follows; None: it ends whole."""
        if not self.parts or isinstance(self.parts[-1], Run):
            return None
        return max((part.end for part in self.parts if isinstance(part, Run)), default=0)


def read_log(name: str, file: BinaryIO) -> WriteLog:
    """Read a log as far as it goes; takes about 2 µs a batch."""
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
