"""Read write-ahead logs: runs of consecutive changes, unreadable places, and breaks in the sequence.

Each record of a log is a batch, which begins with the number of its first change and its number of changes; the next
batch continues from there, in this log or in the next one. So logs show missing changes, which RocksDB does not
check: it replays a log whose predecessor is gone.

    log 12  1 … 500                          log 12  1 … 300 ✗ 341 … 500        log 12  1 … 300 ✗
    log 14          501 … 900                log 14                501 … 900    log 14          301 … 700
    whole: up to 900                         damaged: up to 300, 900 existed    whole: it was torn at 300, and reopened

Rules:
1. Changes are numbered without gaps, through all logs. Changes behind a gap must not be replayed: tasks would be in two
   places or in none (the contract's promise P7).
2. An unreadable place with nothing after it is a torn tail; only the synced mark can tell that more existed.
3. A later log that begins where an earlier one becomes unreadable was begun by a start that found it torn there.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import BinaryIO, Final, NamedTuple

from msgspec import Struct, field

from taskqueue.store.files.log_records import Unreadable, records_of

BATCH: Final = struct.Struct("<QI")
"""Header of a batch: number of its first change, number of changes."""


class Run(NamedTuple):
    """Consecutive batches without a gap.

    Attributes:
        at, end: offsets of its start and end in the log.
        first, last: numbers of the first and last change; an empty batch has its ``last`` before its ``first``.
    """

    at: int
    end: int
    first: int
    last: int


class WriteLog(NamedTuple):
    """Content of a log.

    Attributes:
        name: name of its file.
        number: number of its file; grows from log to log.
        parts: runs and unreadable places in the order of the file.
        size: bytes of the file.
    """

    name: str
    number: int
    parts: list[Run | Unreadable]
    size: int

    @property
    def has_changes(self) -> bool:
        """Whether the log has a batch that is not empty."""
        return any(isinstance(part, Run) and part.first <= part.last for part in self.parts)

    @property
    def torn_at(self) -> int | None:
        """Offset behind the last whole batch, if something unreadable follows; None if the log ends whole."""
        if not self.parts or isinstance(self.parts[-1], Run):
            return None
        return max((part.end for part in self.parts if isinstance(part, Run)), default=0)


def read_log(name: str, file: BinaryIO) -> WriteLog:
    """Read a log up to its end; takes about 2 µs a batch."""
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


class Flaw(NamedTuple):
    """Damaged place in a file.

    Attributes:
        name: name of the file.
        at: offset in bytes.
        reason: text for the operator.
    """

    name: str
    at: int
    reason: str

    def __str__(self) -> str:
        return f"{self.name}, at byte {self.at:,}: {self.reason}"


class Chain(Struct):
    """Sequence of changes in consecutive logs.

    Attributes:
        first: number of the first change; None if the logs have none.
        last: number of the last change that follows the first without a gap; 0 if the logs have none.
        known: number of the last readable change, even behind a gap.
        stop: log and offset behind ``last``.
        flaws: flaws from ``stop`` on, including a torn tail.
    """

    first: int | None = None
    last: int = 0
    known: int = 0
    stop: tuple[WriteLog, int] | None = None
    flaws: list[Flaw] = field(default_factory=list)

    @property
    def has_gap(self) -> bool:
        """Whether there are changes behind a gap."""
        return self.known > self.last


def follow_chain(logs: Sequence[WriteLog]) -> Chain:
    """Follow the changes through logs, which are in the order of their numbers."""
    chain = Chain()
    for log in logs:
        begins = True
        for part in log.parts:
            if isinstance(part, Unreadable):
                chain.flaws.append(Flaw(log.name, part.at, part.reason))
                continue
            if begins and chain.flaws and part.first == chain.last + 1:
                chain.flaws, chain.known = [], chain.last
            begins = False
            _add(chain, log, part)
    return chain


def _add(chain: Chain, log: WriteLog, run: Run) -> None:
    if chain.first is None and not chain.flaws:
        chain.first = run.first
    elif not chain.flaws and run.first > chain.last + 1:
        reason = f"changes {chain.last + 1:,} to {run.first - 1:,} are missing before it"
        chain.flaws.append(Flaw(log.name, run.at, reason))
    if chain.flaws:
        chain.known = max(chain.known, run.last)
        return
    chain.last = chain.known = max(chain.last, run.last)
    chain.stop = log, run.end
