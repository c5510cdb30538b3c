"""The Store contract: ordered maps of bytes, written in atomic batches, fenced by epochs.

A store knows nothing of tasks. ``layout`` gives the keys and values their meaning, ``ledger`` reads and writes them.

A store promises:

P1  *One batch is all or nothing*, whenever the process or the machine dies.
P2  *Reads see the last write*, at once, synced or not.
P3  *Order*: ``scan`` goes by the bytes of the keys, ascending, start included, end excluded; ``scan_back`` goes the
    other way through the same range.
P4  *In a batch* drops come first, then deletes, then puts; the order in which they were added is irrelevant.
P5  *Written is written*: after ``write`` returned, the batch survives the death of the process (kill -9).
P6  *Synced is safe*: after ``sync`` returned, every batch whose ``write`` had returned when ``sync`` was
    called survives the death of the machine.
P7  *Later implies earlier*: if a batch survives, so do all before it.
P8  *Fencing*: ``begin`` returns an epoch greater than every one before, synced before it returns; ``write``
    with an older epoch raises Fenced and writes nothing.
P9  *Failures raise StoreError*, and PassingError if the disk or the database caused them and they may pass; a
    read never ends early without an error. The store then has one of the states before or after
    the batch; the caller must load again.
P10 *Families are apart*: equal keys in two families are two entries.
P11 *Format*: a store of an older format is migrated when it is opened, or FormatError says what to do; a
    newer one is refused, unchanged.

All methods are called from one thread, except ``sync``, which may run in a second one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct, field

Family = str
"""Name of a keyspace; ``layout.FAMILIES`` lists all.

A store keeps two keys of its own in ``meta``: ``format`` and ``epoch``.
"""


Entry = tuple[bytes, bytes]
"""Key and value."""


class Taken(Struct):
    """Rows that a batch takes out of the inbox of a store in a database; other stores have no inbox.

    Attributes:
        ids: ids of all taken rows, 16 bytes each.
        refused: ids of the rows whose tasks were refused, with the reasons.
    """

    ids: list[bytes]
    refused: list[tuple[bytes, str]]


class Batch(Struct):
    """Writes that are applied atomically: drops, then deletes, then puts.

    Attributes:
        puts: (key, value) pairs by family.
        deletes: keys by family; deleting an absent key is not an error.
        drops: ranges (family, start, end) to delete, end excluded; cheap however many keys they contain.
        taken: rows that the batch takes out of the inbox; None if it takes none.
    """

    puts: dict[Family, list[Entry]] = field(default_factory=dict)
    deletes: dict[Family, list[bytes]] = field(default_factory=dict)
    drops: list[tuple[Family, bytes, bytes]] = field(default_factory=list)
    taken: Taken | None = None


class StoreReader(Protocol):
    """Read-only half of a store."""

    def get(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of the keys, in their order; None for an absent key."""

    def scan(self, family: Family, start: bytes, end: bytes, limit: int) -> list[Entry]:
        """Return at most ``limit`` entries with start <= key < end, ascending."""


class Store(StoreReader, Protocol):
    """Reads and writes of a store; the module's docstring numbers the promises that every implementation keeps."""

    def begin(self) -> int:
        """Start a new epoch and return it (P8). Epochs fit in 19 bits."""

    def scan_back(self, family: Family, start: bytes, end: bytes, limit: int) -> list[Entry]:
        """Return at most ``limit`` entries with start <= key < end, descending."""

    def write(self, epoch: int, batch: Batch) -> None:
        """Apply the batch (P1, P4, P5).

        Raises:
            Fenced: a newer epoch has begun.
            StoreError: it could not be written (P9).
        """

    def sync(self) -> None:
        """Make everything written safe from a power cut (P6); releases the GIL while it waits for the disk.

        Raises:
            StoreError: it could not be synced (P9).
        """

    def levels(self) -> dict[int, list[int]]:
        """Return the bytes of each table on disk, by level; empty if the store has no levels. Changes nothing.

        Raises:
            StoreError: the store can't be read (P9).
        """

    def log_bytes(self) -> int:
        """Return the bytes of the write-ahead log, which has what is in no table yet; 0 without a log. Changes nothing.

        Raises:
            StoreError: the store can't be read (P9).
        """

    def close(self) -> None:
        """Release the store; no method may be called afterwards. Written batches stay written.

        Raises:
            StoreError: the store did not close cleanly; it is released all the same, and the next start recovers it.
        """
