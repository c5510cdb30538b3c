"""Checks the slots of divided projects: whatever of a slot is ready is found in the order of slots, and not too late.

    names, slots            name and number lead to each other, and numbers that are yet to be given are not in use
    slots_ready, _waiting   come before the ready tasks: which slots have an entry that is not late, one bit a number
    ready tasks             the first one of each slot: it has such an entry, or else is never handed out

What lies in the range of number 0, or of a former division, waits to be moved: the project has to say so. An entry may
be early, there may be several, and a slot without ready tasks may have one: that shows when it is read. One below the
bound that the project has for where the order begins is never read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from taskqueue.core.tasks.slots.slot_records import NUMBER_BITS, NUMBER_MASK, TIME_BYTES, DivisionRecord, SlotRecord
from taskqueue.core.tasks.slots.slot_table import entry_of
from taskqueue.core.tasks.task import READY, SLOT_SHIFT
from taskqueue.store.contract import Entry, Family, StoreReader
from taskqueue.store.records import layout
from taskqueue.store.records.slots import BEST_BYTES, PREFIX, decode_slot, name_key
from taskqueue.store.tools.findings import Tally

Note = Callable[[Family, bytes, str], object]
"""Reports what is wrong with an entry: family, key, reason."""

SLACK_MS: Final = 1000
"""By so much an entry by time may be after the time in its slot's record, which was rounded otherwise."""

_PROJECT_BYTES: Final = 4

_UNDIVIDED: Final = DivisionRecord("none", 1, 1)


class SlotCheck:
    """Looks at the families of slots, then at ready tasks in the order of their keys."""

    def __init__(self, store: StoreReader, tallies: dict[int, Tally], note: Note) -> None:
        self._store = store
        self._tallies = tallies
        self._note = note
        self._found: dict[int, bytearray] = {}
        self._last = b""

    # ------------------------------------------------------------------------------------ names, slots

    def names(self, page: Sequence[Entry]) -> None:
        """Check that the slots have the names that lead to them."""
        keys = [key[:_PROJECT_BYTES] + value for key, value in page]
        for (key, value), record in zip(page, self._store.get(layout.SLOTS, keys), strict=True):
            division = self._division(layout.SLOT_NAMES, key)
            found = None if record is None else self._slot(key[:_PROJECT_BYTES] + value, record)
            if division is not None and (found is None or found.name.encode() != key[_PROJECT_BYTES:]):
                self._note(layout.SLOT_NAMES, key, f"slot number {_number(value)} has not this name")

    def slots(self, page: Sequence[Entry]) -> None:
        """Check that the names of the slots in force lead to them."""
        records = [self._slot(key, value) for key, value in page]
        names = ["" if record is None else record.name for record in records]
        keys = [name_key(layout.project_of(key), name) for (key, _), name in zip(page, names, strict=True)]
        numbers = self._store.get(layout.SLOT_NAMES, keys)
        for (key, _), record, number in zip(page, records, numbers, strict=True):
            division = self._division(layout.SLOTS, key)
            if division is None or record is None:
                continue
            if _number(key) >= division.next_slot:
                self._note(layout.SLOTS, key, f"the next slot is to get number {division.next_slot}")
            if _number(key) >= division.division and number != key[_PROJECT_BYTES:]:
                self._note(layout.SLOTS, key, f"its name {record.name!r} does not lead to it")

    # ------------------------------------------------------------------------------------ entries

    def ready(self, page: Sequence[Entry]) -> None:
        """Note which slots have an entry by best task that is not late."""
        for key, _ in page:
            division = self._division(layout.SLOTS_READY, key)
            if division is None or not self._is_whole(layout.SLOTS_READY, key, BEST_BYTES):
                continue
            entry = int.from_bytes(key[PREFIX:], "big")
            project, number = layout.project_of(key), entry & NUMBER_MASK
            first = self._first_entry(project, number)
            is_read = number < division.division or key[PREFIX:] >= self._tallies[project].record.ready_low
            if first is not None and entry <= first and is_read and _is_of(division, _number(key[:PREFIX]), number):
                self._cover(project, number)

    def waiting(self, page: Sequence[Entry]) -> None:
        """Note which slots have an entry by time that is not late."""
        keys = [key[:_PROJECT_BYTES] + key[-_PROJECT_BYTES:] for key, _ in page]
        for (key, _), place, value in zip(page, keys, self._store.get(layout.SLOTS, keys), strict=True):
            division = self._division(layout.SLOTS_WAITING, key)
            record = None if value is None else self._slot(place, value)
            if division is None or record is None or not self._is_whole(layout.SLOTS_WAITING, key, TIME_BYTES):
                continue
            entry = int.from_bytes(key[PREFIX:], "big")
            number = entry & NUMBER_MASK
            until = max(record.next_at, record.blocked_until, record.backoff_until)
            is_late = (entry >> NUMBER_BITS) > until * 1000 + SLACK_MS
            is_read = number < division.division or key[PREFIX:] >= division.time_low
            if is_read and not is_late and _is_of(division, _number(key[:PREFIX]), number):
                self._cover(layout.project_of(key), number)

    # ------------------------------------------------------------------------------------ tasks

    def tasks(self, page: Sequence[Entry]) -> None:
        """Check ready tasks, of which the first one of each slot is told by its key."""
        is_of_one = page[0][0][:PREFIX] == page[-1][0][:PREFIX]
        for key, _ in page[:1] if is_of_one else page:
            slot = key[:PREFIX]
            if slot != self._last and len(key) >= PREFIX:
                self._last = slot
                self._check_first(key, layout.project_of(key), _number(slot))

    def _check_first(self, key: bytes, project: int, number: int) -> None:
        tally = self._tallies.get(project)
        if tally is None:
            return
        division = tally.record.slots or _UNDIVIDED
        is_in_force = number >= division.division if division.by != "none" else number == 0
        if not is_in_force and not division.is_moving:
            self._note(layout.ORDERS[READY], key, f"it is in slot number {number}, and nothing is to be moved")
        elif (number or division.by != "none") and not self._is_covered(project, number):
            self._note(layout.ORDERS[READY], key, f"slot number {number} has no entry in its order that is not late")

    # ------------------------------------------------------------------------------------ what they share

    def _division(self, family: Family, key: bytes) -> DivisionRecord | None:
        """How the key's project is divided; None, and a problem: it is not."""
        tally = self._tallies.get(layout.project_of(key))
        if tally is None:
            self._note(family, key, "it is of no known project")
        elif tally.record.slots is None:
            self._note(family, key, "its project is not divided into slots")
        return None if tally is None else tally.record.slots

    def _slot(self, key: bytes, value: bytes) -> SlotRecord | None:
        try:
            return decode_slot(value)
        except layout.UNREADABLE as error:
            self._note(layout.SLOTS, key, f"can't be read ({error})")
            return None

    def _is_whole(self, family: Family, key: bytes, size: int) -> bool:
        is_whole = len(key) == PREFIX + size
        if not is_whole:
            self._note(family, key, f"{len(key)} bytes are no key")
        return is_whole

    def _first_entry(self, project: int, number: int) -> int | None:
        """The entry of a slot's best ready task; None: it has none."""
        start, end = (layout.order_key(project, each << SLOT_SHIFT) for each in (number, number + 1))
        first = self._store.scan(layout.ORDERS[READY], start, end, 1)
        return entry_of(int.from_bytes(first[0][0][_PROJECT_BYTES:], "big")) if first else None

    def _cover(self, project: int, number: int) -> None:
        bits = self._found.setdefault(project, bytearray())
        if len(bits) <= number >> 3:
            bits.extend(bytes((number >> 3) + 1 - len(bits)))
        bits[number >> 3] |= 1 << (number & 7)

    def _is_covered(self, project: int, number: int) -> bool:
        bits = self._found.get(project, b"")
        return number >> 3 < len(bits) and bool(bits[number >> 3] >> (number & 7) & 1)


def _is_of(division: DivisionRecord, entered: int, number: int) -> bool:
    """Whether an entry of the slot of this number is read in the division that it is entered in."""
    if division.by != "none" and division.division <= number < division.next_slot:
        return entered == division.division
    return number < division.next_slot and entered < division.division


def _number(key: bytes) -> int:
    """The number at the end of a key."""
    return int.from_bytes(key[-_PROJECT_BYTES:], "big")
