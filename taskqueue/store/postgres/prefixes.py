"""Ranges that were dropped: new entries go elsewhere at once, and what is left is deleted bit by bit.

    drop of project 7 ──► its rows stay as they are: *retired*; from now on 7 is stored as fffffffe
    later             ──► each write deletes some retired rows, an idle daemon's, too; when all are gone the range
                          is *free*

To delete ten million rows in one transaction would take half a minute, in which nobody is served. So a long range whose
keys all have one prefix, such as the number of a project, is left where it is, and the prefix is stored as another one,
from the upper end of all that there are. Nobody reads a retired range, and nothing is ever written into one.

Pure: what to write about it in the store is returned.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from taskqueue.errors import StoreError
from taskqueue.store.contract import Family
from taskqueue.store.records import layout

LENGTHS: Final[dict[Family, int]] = {
    **dict.fromkeys((*layout.PROJECT_FAMILIES, layout.PARENTS, layout.CHILDREN), 4),
    **dict.fromkeys((layout.STAGES, layout.STAGE_IDS), 4),
    layout.RERUNS: 8,
}
"""Bytes of the numbers with which keys of a family begin."""

RESERVED: Final = b"\xf0"
"""Prefixes from here on are where moved ones are stored; numbers that come from counters never get there."""


class Segment(NamedTuple):
    """A part of a range, as it is stored.

    Attributes:
        start, end: end excluded.
        prefix, stored_as: what keys in it begin with, and really begin with; empty if they are the same.
    """

    start: bytes
    end: bytes
    prefix: bytes = b""
    stored_as: bytes = b""


class Retired(NamedTuple):
    """A range that was dropped and has rows still: all keys of the family that begin with ``stored_as``."""

    family: Family
    stored_as: bytes

    def range(self) -> tuple[bytes, bytes]:
        """Its first key, and the first one behind it."""
        return self.stored_as, _after(self.stored_as)


class Prefixes:
    """Which prefixes are stored as others, and which ranges are retired.

    Attributes:
        moved: by family, by prefix, what it is stored as.
        retired: ranges to be deleted, in the order in which they were dropped; of each the first key that may be left.
    """

    def __init__(self, rows: Iterable[tuple[Family, bytes, bytes | None]] = ()) -> None:
        """``rows`` of (family, stored_as, prefix), the last None for a range that is retired."""
        self.moved: dict[Family, dict[bytes, bytes]] = {}
        self.retired: dict[Retired, bytes] = {}
        self._sorted: dict[Family, list[bytes]] = {}
        for family, stored_as, prefix in rows:
            if prefix is None:
                self.retired[Retired(family, stored_as)] = stored_as
            else:
                self._move(family, prefix, stored_as)

    @staticmethod
    def prefix_of(family: Family, start: bytes, end: bytes) -> bytes:
        """The prefix that makes up the range; empty: the range is another one."""
        length = LENGTHS.get(family, 0)
        return start if len(start) == length > 0 and end == _after(start) else b""

    def retire(self, family: Family, prefix: bytes) -> tuple[Retired, bytes]:
        """Retire what a prefix has, and move it; returns what is retired, and what the prefix is stored as now.

        Raises:
            StoreError: so many are moved that there is no prefix left.
        """
        retired = Retired(family, self.moved.get(family, {}).get(prefix, prefix))
        taken = {*self.moved.get(family, {}).values(), *(one.stored_as for one in self.retired if one.family == family)}
        number = (1 << 8 * len(prefix)) - 2
        while (stored_as := number.to_bytes(len(prefix), "big")) in taken:
            number -= 1
        if stored_as < RESERVED:
            raise StoreError(f"the family {family} has too many ranges that were dropped")
        self.retired[retired] = retired.stored_as
        self._move(family, prefix, stored_as)
        return retired, stored_as

    def freed_up_to(self, retired: Retired, last: bytes) -> None:
        """A retired range has no rows any more up to this key. The store does not keep that: a new start looks anew."""
        self.retired[retired] = last + b"\0"

    def freed(self, retired: Retired) -> None:
        """A retired range has no rows any more."""
        del self.retired[retired]

    def idle_moves(self, family: Family) -> list[tuple[bytes, bytes]]:
        """Prefixes that need not be stored as others, once nothing is stored there: all that they had is deleted."""
        return [] if any(one.family == family for one in self.retired) else [*self.moved.get(family, {}).items()]

    def put_back(self, family: Family, prefix: bytes) -> None:
        """Store a prefix as itself again."""
        del self.moved[family][prefix]
        self._sorted[family].remove(prefix)
        if not self.moved[family]:
            del self.moved[family]

    def stored_key(self, family: Family, key: bytes) -> bytes:
        """A key as it is stored."""
        moved = self.moved.get(family)
        if moved is None:
            return key
        length = LENGTHS[family]
        return moved.get(key[:length], key[:length]) + key[length:]

    def segments(self, family: Family, start: bytes, end: bytes) -> Iterator[Segment]:
        """The parts of a range in the order of their keys."""
        moved = self.moved.get(family)
        if moved is None:
            yield Segment(start, end)
            return
        prefixes = self._sorted[family]
        first = bisect_left(prefixes, start[: LENGTHS[family]])
        for prefix in prefixes[first:]:
            if prefix >= end:
                break
            if start < prefix:
                yield Segment(start, prefix)
            inside, stored_as = max(start, prefix), moved[prefix]
            below = end[len(prefix) :] if end.startswith(prefix) else None
            stored_end = _after(stored_as) if below is None else stored_as + below
            yield Segment(stored_as + inside[len(prefix) :], stored_end, prefix, stored_as)
            start = _after(prefix)
        if start < end:
            yield Segment(start, min(end, RESERVED))

    def _move(self, family: Family, prefix: bytes, stored_as: bytes) -> None:
        moved = self.moved.setdefault(family, {})
        if prefix not in moved:
            insort(self._sorted.setdefault(family, []), prefix)
        moved[prefix] = stored_as


def _after(prefix: bytes) -> bytes:
    """The first key behind all that begin with the prefix."""
    return (int.from_bytes(prefix, "big") + 1).to_bytes(len(prefix), "big")
