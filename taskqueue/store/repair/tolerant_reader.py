"""Reads a store past blocks that can't be read.

    entries   a a a a ✗ ✗ b b b        a page that fails is halved down to the first unreadable entry; then the first
                                       readable key behind it is searched for

RocksDB reports that a block is damaged, but not where the next one begins. A seek behind a damaged block works, so the
next key is found by doubling steps, and then by bisection: a few hundred seeks per block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from taskqueue.errors import StoreError
from taskqueue.store.contract import Family, StoreReader
from taskqueue.store.files.integrity import is_damage
from taskqueue.store.records import layout
from taskqueue.store.records.pages import PAGE

Entry = tuple[bytes, bytes]

KEY_BYTES: Final = 288
"""Longer than any key."""


class TolerantReader:
    """Reads what is readable of a store.

    Args:
        lost: called with a line for each range of keys that can't be read.
    """

    def __init__(self, store: StoreReader, lost: Callable[[str], object]) -> None:
        self._store = store
        self._lost = lost
        self._told: set[tuple[Family, bytes]] = set()

    def get(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        """Values of the keys; None for a key that is absent or unreadable."""
        try:
            return self._store.get(family, keys)
        except StoreError as error:
            _refuse_other(error)
        if len(keys) == 1:
            return [None]
        half = len(keys) // 2
        return self.get(family, keys[:half]) + self.get(family, keys[half:])

    def pages(self, family: Family, start: bytes = b"", end: bytes = layout.LAST_KEY) -> Iterator[list[Entry]]:
        """All readable entries with start <= key < end, in pages."""
        limit = PAGE
        while start < end:
            page = self._page(family, start, end, limit)
            if page is None and limit > 1:
                limit //= 2
            elif page is None:
                after = self._behind(family, start, end)
                self._tell(family, start, after)
                start, limit = after, PAGE
            elif page:
                yield page
                start = page[-1][0] + b"\0"
                limit = min(PAGE, limit * 2) if len(page) == limit else PAGE
            else:
                return

    def _page(self, family: Family, start: bytes, end: bytes, limit: int) -> list[Entry] | None:
        """A page of entries; None: it can't be read."""
        try:
            return self._store.scan(family, start, end, limit)
        except StoreError as error:
            _refuse_other(error)
            return None

    def _behind(self, family: Family, start: bytes, end: bytes) -> bytes:
        """The first key from which on the family can be read again; ``end`` if there is none."""
        low = int.from_bytes(start.ljust(KEY_BYTES, b"\0"), "big")
        most = int.from_bytes(end.ljust(KEY_BYTES, b"\0"), "big")
        step = 1
        while low + step < most and self._page(family, _key(low + step), end, 1) is None:
            step *= 2
        high = min(low + step, most)
        low += step // 2
        while low + 1 < high:
            middle = (low + high) // 2
            if self._page(family, _key(middle), end, 1) is None:
                low = middle
            else:
                high = middle
        return _key(high) if high < most else end

    def _tell(self, family: Family, start: bytes, after: bytes) -> None:
        # The same block may be met again by somebody who reads its family once more.
        if (family, after) not in self._told:
            self._told.add((family, after))
            self._lost(f"{family}: what lay between the keys {_shown(start)} and {_shown(after)} can't be read")


def _key(number: int) -> bytes:
    return number.to_bytes(KEY_BYTES, "big")


def _shown(key: bytes) -> str:
    return key.rstrip(b"\0")[:40].hex() or "0"


def _refuse_other(error: StoreError) -> None:
    if not is_damage(error):
        raise error
