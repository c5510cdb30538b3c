"""Dropped ranges: new entries go elsewhere at once, and the old rows are deleted bit by bit.

    drop of project 7 ──► its rows stay as they are: *retired*; from now on 7 is stored as fffffffe
    later             ──► each write deletes some retired rows, even that of an idle daemon; when all are gone the range
                          is *free*

Deleting ten million rows in one transaction would take half a minute, in which the daemon serves no client. So a long
range whose keys all have one prefix, such as the number of a project, is left in place, and the prefix is stored as
another one, from the upper end of all prefixes. A retired range is never read, and nothing is ever written into it.

Pure: methods return the changes to write about it.
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
    layout.UNDO_ROWS: 8,
}
"""Bytes of the numbers with which keys of a family begin."""

RESERVED: Final = b"\xf0"
"""First of the prefixes that stand for moved ones; numbers from counters never get that far."""


class Segment(NamedTuple):
    """Part of a range, as it is stored.

    Attributes:
        start, end: bounds of the stored keys, end excluded.
        prefix, stored_as: beginning of the keys and of their stored form; empty if they are the same.
    """

    start: bytes
    end: bytes
    prefix: bytes = b""
    stored_as: bytes = b""


class Retired(NamedTuple):
    """Dropped range that still has rows: all keys of the family that begin with ``stored_as``."""

    family: Family
    stored_as: bytes

    def range(self) -> tuple[bytes, bytes]:
        """Return its first key, and the first one behind it."""
        return self.stored_as, _after(self.stored_as)


class Prefixes:
    """Table of prefixes that are stored as others, and of retired ranges.

    Attributes:
        moved: stored form by prefix, by family.
        retired: ranges to delete, in the order in which they were dropped, each with the first key that may be left.
    """

    def __init__(self, rows: Iterable[tuple[Family, bytes, bytes | None]] = ()) -> None:
        """Load the table.

        Args:
            rows: (family, stored_as, prefix) each; the prefix is None for a retired range.
        """
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
        """Return the prefix that covers exactly the range; empty if there is none."""
        length = LENGTHS.get(family, 0)
        return start if len(start) == length > 0 and end == _after(start) else b""

    def retire(self, family: Family, prefix: bytes) -> tuple[Retired, bytes]:
        """Retire the range of a prefix, and move the prefix; return the range, and the prefix's new stored form.

        Raises:
            StoreError: too many prefixes are moved, so that none is left.
        """
        retired = Retired(family, self.moved.get(family, {}).get(prefix, prefix))
        taken = {*self.moved.get(family, {}).values(), *(one.stored_as for one in self.retired if one.family == family)}
        number = (1 << 8 * len(prefix)) - 2
        while (stored_as := number.to_bytes(len(prefix), "big")) in taken:
            number -= 1
        if stored_as < RESERVED:
            raise StoreError(f"the family {family} has too many dropped ranges whose rows are not deleted yet")
        self.retired[retired] = retired.stored_as
        self._move(family, prefix, stored_as)
        return retired, stored_as

    def freed_up_to(self, retired: Retired, last: bytes) -> None:
        """Note that a retired range has no rows up to this key; not stored, so a new start searches again."""
        self.retired[retired] = last + b"\0"

    def freed(self, retired: Retired) -> None:
        """Note that a retired range has no rows any more."""
        del self.retired[retired]

    def idle_moves(self, family: Family) -> list[tuple[bytes, bytes]]:
        """List moved prefixes to put back if their own place is empty; none while the family has retired ranges."""
        return [] if any(one.family == family for one in self.retired) else [*self.moved.get(family, {}).items()]

    def put_back(self, family: Family, prefix: bytes) -> None:
        """Store a prefix as itself again."""
        del self.moved[family][prefix]
        self._sorted[family].remove(prefix)
        if not self.moved[family]:
            del self.moved[family]

    def stored_key(self, family: Family, key: bytes) -> bytes:
        """Convert a key to its stored form."""
        moved = self.moved.get(family)
        if moved is None:
            return key
        length = LENGTHS[family]
        return moved.get(key[:length], key[:length]) + key[length:]

    def segments(self, family: Family, start: bytes, end: bytes) -> Iterator[Segment]:
        """Yield the parts of a range in the order of their keys."""
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
    return (int.from_bytes(prefix, "big") + 1).to_bytes(len(prefix), "big")
