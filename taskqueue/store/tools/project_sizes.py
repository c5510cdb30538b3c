"""About how much of the disk each project takes.

    some tasks of each state ──► mean bytes in each family × tasks ──► shares ──► bytes that the family really takes

RocksDB tells the bytes of a family, compressed and with what was written over; whose they are is estimated from the
first tasks of each state, so a project whose later tasks are much larger takes more than is said. All shares add up to
what the families take. Costs some reads a project, whatever it holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from taskqueue.core.tasks.records import ProjectRecord
from taskqueue.core.tasks.task import STATE_NAMES, SUCCESS
from taskqueue.store.contract import Entry, Family, StoreReader
from taskqueue.store.records import layout
from taskqueue.store.records.decoding import decode_record
from taskqueue.store.rocksdb.read_only import ReadOnlyStore
from taskqueue.store.tools.store_stats import project_records

SAMPLES: Final = 20_000
"""Tasks looked at in all, shared by the projects."""

SAMPLE_MOST: Final = 100
SAMPLE_LEAST: Final = 4
"""Of one state of a project."""

TASKID_BYTES: Final = 32
"""Of those that clients make of urls."""

SPEC_KEY_BYTES: Final = 12

HISTORY_MOST: Final = 16
"""More attempts than any task has."""

Shares = dict[Family, float]
"""Bytes by family, before compression."""


class ProjectSize(Struct, frozen=True):
    """About what one project takes on disk.

    Attributes:
        tasks: known.
        families: bytes by family.
    """

    name: str
    tasks: int
    size_bytes: int
    families: dict[str, int]


class Sizes(Struct, frozen=True):
    """What all of them take, the largest first; ``shared_bytes``: what is no project's own."""

    projects: list[ProjectSize]
    shared_bytes: int


def sizes_of(store: ReadOnlyStore) -> Sizes:
    """Of all projects.

    Raises:
        StoreError: it can't be read.
        Corrupt: something of it can't be read.
    """
    records = project_records(store)
    sample = max(SAMPLE_LEAST, min(SAMPLE_MOST, SAMPLES // max(1, len(records))))
    shares = [_shares(store, record, sample) for record in records]
    taken = {family: store.table_bytes(family) + store.log_bytes(family) for family in layout.FAMILIES}
    whole = {family: sum(share.get(family, 0.0) for share in shares) for family in layout.PROJECT_FAMILIES}
    projects = [_size(*each, taken, whole) for each in zip(records, shares, strict=True)]
    theirs = sum(taken[family] for family in layout.PROJECT_FAMILIES if whole[family])
    return Sizes(sorted(projects, key=lambda size: (-size.size_bytes, size.name)), sum(taken.values()) - theirs)


def _size(record: ProjectRecord, share: Shares, taken: dict[Family, int], whole: Shares) -> ProjectSize:
    families = {family: round(taken[family] * part / whole[family]) for family, part in share.items() if part}
    tasks = sum(getattr(record.counts, name) for name in STATE_NAMES[1:])
    return ProjectSize(record.name, tasks, sum(families.values()), families)


def _shares(store: StoreReader, record: ProjectRecord, sample: int) -> Shares:
    shares: Shares = dict.fromkeys(layout.PROJECT_FAMILIES, 0.0)
    shares[layout.PROJECTS] = float(len(layout.encode(record)))
    for value in store.get(layout.COUNTERS, [layout.project_key(record.number)]):
        shares[layout.COUNTERS] = float(len(value or b""))
    shares[layout.DEFERRED] = float(sum(map(_bytes, _first(store, layout.DEFERRED, record.number, sample))))
    for state, family in layout.ORDERS.items():
        if known := getattr(record.counts, STATE_NAMES[state]):
            for name, part in _of_state(store, record.number, state, family, known, sample):
                shares[name] += part
    return shares


def _of_state(
    store: StoreReader, number: int, state: int, family: Family, known: int, sample: int
) -> Iterator[tuple[Family, float]]:
    """What ``known`` tasks of a state take. Bare ones have a record only; they are told by the lack of entries."""
    entries = _first(store, family, number, sample)
    specs = store.get(layout.SPECS, [layout.spec_key_of(key) for key, _ in entries])
    taskids = [_taskid(state, entry, spec) for entry, spec in zip(entries, specs, strict=True)]
    mean_id = sum(map(len, taskids)) / len(taskids) if taskids else TASKID_BYTES
    yield layout.IDS, known * (mean_id + layout.RECORD.size)
    if entries:
        placed = known if len(entries) == sample else len(entries)
        yield family, placed * sum(map(_bytes, entries)) / len(entries)
        yield layout.SPECS, placed * sum(len(spec or b"") + SPEC_KEY_BYTES for spec in specs) / len(entries)
        attempts = sum(_history(store, number, taskid) for taskid in taskids)
        yield layout.HISTORY, placed * attempts / len(entries)


def _taskid(state: int, entry: Entry, spec: bytes | None) -> str:
    if state >= SUCCESS:
        return str(decode_record(layout.ORDERS[state], entry[0], layout.taskid_at, entry[1]), errors="replace")
    return "" if spec is None else decode_record(layout.SPECS, entry[0], layout.decode_spec, spec)[0]


def _history(store: StoreReader, number: int, taskid: str) -> int:
    prefix = layout.history_key(number, taskid)
    return sum(map(_bytes, store.scan(layout.HISTORY, prefix, prefix + b"\xff", HISTORY_MOST)))


def _first(store: StoreReader, family: Family, number: int, limit: int) -> Sequence[Entry]:
    return store.scan(family, layout.project_key(number), layout.project_key(number + 1), limit)


def _bytes(entry: Entry) -> int:
    return len(entry[0]) + len(entry[1])
