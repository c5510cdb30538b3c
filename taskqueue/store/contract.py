"""The Store contract: ordered maps of bytes, written in atomic batches, fenced by epochs.

A store knows nothing of tasks. ``layout`` says what the keys and values mean, ``ledger`` reads and writes
them.

A store promises:

P1  *One batch is all or nothing*, whenever the process or the machine dies.
P2  *Reads see the last write*, at once, synced or not.
P3  *Order*: ``scan`` goes by the bytes of the keys, ascending, start included, end excluded; ``scan_back`` goes the
    other way through the same range.
P4  *In a batch* drops come first, then deletes, then puts; the order in which they were added means nothing.
P5  *Written is written*: after ``write`` returned, the batch survives the death of the process (kill -9).
P6  *Synced is safe*: after ``sync`` returned, every batch whose ``write`` had returned when ``sync`` was
    called survives the death of the machine.
P7  *Later implies earlier*: if a batch survives, so do all before it.
P8  *Fencing*: ``begin`` returns an epoch greater than every one before, synced before it returns; ``write``
    with an older epoch raises Fenced and writes nothing.
P9  *Whatever fails raises StoreError*, and a PassingError if it is the disk's or the database's doing and may pass; a
    read never ends early without saying so. What is then in the store is one of the states before or after
    the batch; whoever sees the error must load again.
P10 *Families are apart*: equal keys in two families are two entries.
P11 *Format*: a store of an older format is migrated when it is opened, or FormatError says what to do; a
    newer one is refused, unchanged.

``sync`` may be called from another thread while the others are not being called from a third; everything else
is called from one thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct, field

Family = str
"""Name of a keyspace; the names that exist are ``layout.FAMILIES``. Of ``meta``, a store has two keys for
itself: ``format`` and ``epoch``."""


Entry = tuple[bytes, bytes]
"""A key and its value."""


class Taken(Struct):
    """Rows that a batch takes out of the inbox of a store in a database; no other store has one.

    Attributes:
        ids: of all of them, 16 bytes each.
        refused: of those whose tasks were not taken, and why.
    """

    ids: list[bytes]
    refused: list[tuple[bytes, str]]


class Batch(Struct):
    """Writes that are applied atomically. Within a batch: drops, then deletes, then puts.

    Attributes:
        puts: by family, (key, value) pairs.
        deletes: by family, keys; deleting an absent key is no error.
        drops: ranges (family, start, end) to delete, end excluded; cheap however many keys they have.
        taken: what it takes out of the inbox; None: nothing.
    """

    puts: dict[Family, list[Entry]] = field(default_factory=dict)
    deletes: dict[Family, list[bytes]] = field(default_factory=dict)
    drops: list[tuple[Family, bytes, bytes]] = field(default_factory=list)
    taken: Taken | None = None


class StoreReader(Protocol):
    """The read-only half of a store."""

    def get(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        """Values of the keys, in the order of the keys; None for an absent key."""

    def scan(self, family: Family, start: bytes, end: bytes, limit: int) -> list[Entry]:
        """At most ``limit`` entries with start <= key < end, ascending."""


class Store(StoreReader, Protocol):
    """Reads and writes; the promises that every implementation keeps are numbered in the module's docstring."""

    def begin(self) -> int:
        """Start a new epoch and return it (P8). Epochs fit in 19 bits."""

    def scan_back(self, family: Family, start: bytes, end: bytes, limit: int) -> list[Entry]:
        """At most ``limit`` entries with start <= key < end, descending: the last ones first."""

    def write(self, epoch: int, batch: Batch) -> None:
        """Apply the batch (P1, P4, P5).

        Raises:
            Fenced: a newer epoch has begun.
            StoreError: it could not be written (P9).
        """

    def sync(self) -> None:
        """Make everything written safe from a power cut (P6). Does not hold the GIL while it waits for the
        disk.

        Raises:
            StoreError: it could not be synced (P9).
        """

    def levels(self) -> dict[int, list[int]]:
        """By level, the bytes of each of its tables on disk; empty if it has none. Changes nothing.

        Raises:
            StoreError: it can't be read (P9).
        """

    def log_bytes(self) -> int:
        """Bytes of its log, which has what is in no table yet; 0 if it has no log of its own. Changes nothing.

        Raises:
            StoreError: it can't be read (P9).
        """

    def close(self) -> None:
        """Release the store; no method may be called afterwards. What was written stays written.

        Raises:
            StoreError: it did not close cleanly; it is released all the same, and the next start recovers it.
        """
