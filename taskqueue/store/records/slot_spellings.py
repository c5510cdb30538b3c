"""Migrate slots of hosts from one name per spelling to one name; a module of its own, because it is compiled.

    bücher.example ─────────┐                           one slot    it gets the name
    b%c3%bccher.example ────┼──► xn--bcher-kva.example  several     one merges them all, and a new division
    xn--bcher-kva.example ──┘                                       begins: a daemon moves the ready tasks of all

So a slot's settings, block and back-off survive, whichever spelling they had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

from msgspec.structs import asdict, replace

from taskqueue.core.model.records import ProjectRecord
from taskqueue.core.model.slot_records import NO_TIME, DivisionRecord, SlotRecord
from taskqueue.hosts.ascii_hosts import ascii_host
from taskqueue.hosts.url_hosts import respelled
from taskqueue.settings.slots import PLAIN_CHOICE, SlotChoice
from taskqueue.store.contract import Batch, Entry, Family, Store
from taskqueue.store.records import layout
from taskqueue.store.records.reading import decode_record
from taskqueue.store.records.slots import NUMBER_BYTES, decode_slot, name_key, slot_key

PAGE: Final = 1024
"""Entries per batch."""

DIVISIONS: Final = ("host", "domain")
"""Divisions whose slots are named after hosts."""

Write = Callable[[Batch], None]


def join_spellings(store: Store, epoch: int) -> None:
    """Give all hosts with slots one name each."""
    for key, value in _entries(store, layout.PROJECTS, b"", layout.LAST_KEY):
        record = decode_record(layout.PROJECTS, key, layout.decode_project, value)
        if record.slots is not None and record.slots.by in DIVISIONS:
            _join(store, lambda batch: store.write(epoch, batch), record, record.slots)


def _join(store: Store, write: Write, record: ProjectRecord, division: DivisionRecord) -> None:
    spellings = _spellings(store, record.number)
    if any(sum(number >= division.division for number in numbers) > 1 for numbers in spellings.values()):
        division.division, division.time_low, division.is_moving = division.next_slot, NO_TIME, True
        write(Batch(puts={layout.PROJECTS: [(layout.project_key(record.number), layout.encode(record))]}))
    names = iter(spellings.items())
    while some := dict(islice(names, PAGE)):
        batch = Batch(puts={layout.SLOTS: [], layout.SLOT_NAMES: []}, deletes={layout.SLOT_NAMES: []})
        for name, numbers in some.items():
            _add(store, batch, record.number, name, numbers)
        write(batch)


def _spellings(store: Store, project: int) -> dict[str, list[int]]:
    """Find slots of hosts whose name changes: their numbers by new name, the largest number first."""
    found: dict[str, list[int]] = {}
    for name, number in _names(store, project):
        now = respelled(name, ascii_host)
        if now != name:
            found.setdefault(now, []).append(number)
    known = store.get(layout.SLOT_NAMES, [name_key(project, name) for name in found])
    for numbers, number_bytes in zip(found.values(), known, strict=True):
        numbers += [int.from_bytes(number_bytes, "big")] if number_bytes else []
        numbers.sort(reverse=True)
    return found


def _names(store: Store, project: int) -> Iterator[tuple[str, int]]:
    start, end = layout.project_key(project), layout.project_key(project + 1)
    for key, number in _entries(store, layout.SLOT_NAMES, start, end):
        yield key[len(start) :].decode(errors="replace"), int.from_bytes(number, "big")


def _entries(store: Store, family: Family, start: bytes, end: bytes) -> Iterator[Entry]:
    while page := store.scan(family, start, end, PAGE):
        yield from page
        start = page[-1][0] + b"\0"


def _add(store: Store, batch: Batch, project: int, name: str, numbers: list[int]) -> None:
    """Merge slots into the one with the largest number, which gets the name."""
    keys = [slot_key(project, number) for number in numbers]
    values = zip(keys, store.get(layout.SLOTS, keys), strict=True)
    records = [decode_record(layout.SLOTS, key, decode_slot, value) for key, value in values if value is not None]
    if not records:
        return
    batch.deletes[layout.SLOT_NAMES] += [name_key(project, record.name) for record in records]
    batch.puts[layout.SLOTS].append((keys[0], layout.encode(_joined(name, records))))
    batch.puts[layout.SLOT_NAMES].append((name_key(project, name), keys[0][-NUMBER_BYTES:]))


def _joined(name: str, records: list[SlotRecord]) -> SlotRecord:
    """Merge records; where they contradict each other, the gentler to the host wins, or the latest."""
    backing_off = max(records, key=lambda record: record.backoff_until)
    return SlotRecord(
        name,
        next_at=max(record.next_at for record in records),
        choice=_choice(record.choice for record in records),
        blocked_until=max(record.blocked_until for record in records),
        level=backing_off.level,
        backoff_at=backing_off.backoff_at,
        backoff_until=backing_off.backoff_until,
        auto_delay=max(record.auto_delay for record in records),
        errors=sum(record.errors for record in records),
        backoff_number=max(record.backoff_number for record in records),
    )


def _choice(choices: Iterable[SlotChoice]) -> SlotChoice:
    """Merge choices, later ones first; a delay and a rate replace each other."""
    said = PLAIN_CHOICE
    for choice in choices:
        later = {key: value for key, value in asdict(said).items() if value is not None}
        if said.delay is not None or said.rate is not None:
            choice = replace(choice, delay=None, rate=None)
        said = replace(choice, **later)
    return said
