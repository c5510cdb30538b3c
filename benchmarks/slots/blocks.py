"""Store in memory for millions of entries: the one for tests has a list of keys, this one a list of lists.

A key enters a block of at most 2 × BLOCK keys, so its cost is the same among thousands and among millions.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from itertools import islice
from typing import Final

from taskqueue.store.contract import Batch
from taskqueue.store.records.layout import FAMILIES
from tests.memory_store import Disk, Entries

BLOCK: Final = 1000


class Blocks(Entries):
    """Ordered map of bytes: a dict, and its keys in sorted blocks."""

    __slots__ = ("_firsts", "_lists")

    def __init__(self) -> None:
        super().__init__({})
        self._lists: list[list[bytes]] = [[]]
        self._firsts: list[bytes] = [b""]

    def put(self, key: bytes, value: bytes) -> None:
        """Set the value of a key."""
        if key not in self.values:
            at = self._block_of(key)
            block = self._lists[at]
            insort(block, key)
            if len(block) > 2 * BLOCK:
                self._lists.insert(at + 1, block[BLOCK:])
                self._firsts.insert(at + 1, block[BLOCK])
                del block[BLOCK:]
        self.values[key] = value

    def delete(self, key: bytes) -> None:
        """Remove a key, if it is there."""
        if self.values.pop(key, None) is not None:
            at = self._block_of(key)
            block = self._lists[at]
            del block[bisect_left(block, key)]
            if not block and at:
                del self._lists[at], self._firsts[at]

    def drop(self, start: bytes, end: bytes) -> None:
        """Remove the keys of a range."""
        for key in list(self._keys(start, end)):
            self.delete(key)

    def scan(self, start: bytes, end: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """Return at most ``limit`` entries of a range."""
        return [(key, self.values[key]) for key in islice(self._keys(start, end), limit)]

    def _block_of(self, key: bytes) -> int:
        return bisect_right(self._firsts, key) - 1

    def _keys(self, start: bytes, end: bytes) -> Iterator[bytes]:
        at = self._block_of(start)
        first = bisect_left(self._lists[at], start)
        while at < len(self._lists):
            block = self._lists[at]
            for place in range(first, len(block)):
                if block[place] >= end:
                    return
                yield block[place]
            at, first = at + 1, 0


class BlockDisk(Disk):
    """Disk without power cuts, which need not know what was synced."""

    def __init__(self) -> None:
        super().__init__()
        self.families = {family: Blocks() for family in FAMILIES}

    def write(self, batch: Batch) -> None:
        """Apply a batch."""
        for family, start, end in batch.drops:
            self.families[family].drop(start, end)
        for family, keys in batch.deletes.items():
            for key in keys:
                self.families[family].delete(key)
        for family, entries in batch.puts.items():
            for key, value in entries:
                self.families[family].put(key, value)
