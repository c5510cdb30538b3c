"""Estimates how much of the disk each project takes.

    samples of each state ──► mean bytes in each family × tasks ──► shares ──► actual bytes of the family, divided

A store tells the bytes of a family, compressed and with overwritten values; they are divided by samples of the first
tasks of each state, so a project whose later tasks are much larger is underestimated. The estimates add up to the
actual bytes of the families. Costs a few reads per project, whatever it holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from taskqueue.core.tasks.records import ProjectRecord
from taskqueue.core.tasks.task import OVER, STATE_NAMES
from taskqueue.store.contract import Entry, Family, StoreReader
from taskqueue.store.records import layout, over_entries
from taskqueue.store.records.decoding import decode_record
from taskqueue.store.tools.store_stats import SizedReader, project_records

SAMPLES: Final = 20_000
"""Tasks sampled in all, divided among the projects."""

SAMPLE_MOST: Final = 100
SAMPLE_LEAST: Final = 4
"""Tasks sampled of one state of a project, at least and (SAMPLE_MOST) at most."""

TASKID_BYTES: Final = 32
"""Assumed length without samples: that of taskids which clients derive from urls."""

SPEC_KEY_BYTES: Final = 12

HISTORY_MOST: Final = 16
"""More attempts than any task has."""

Shares = dict[Family, float]
"""Bytes by family, before compression."""


class ProjectSize(Struct, frozen=True):
    """The estimated size of a project on disk.

    Attributes:
        tasks: number of known tasks.
        families: bytes by family.
    """

    name: str
    tasks: int
    size_bytes: int
    families: dict[str, int]


class Sizes(Struct, frozen=True):
    """Sizes of all projects, the largest first; ``shared_bytes`` belong to no project."""

    projects: list[ProjectSize]
    shared_bytes: int


def sizes_of(store: SizedReader) -> Sizes:
    """Estimate the sizes of all projects.

    Raises:
        StoreError: the store can't be read.
        Unreadable: a record can't be decoded.
    """
    records = project_records(store)
    sample = max(SAMPLE_LEAST, min(SAMPLE_MOST, SAMPLES // max(1, len(records))))
    shares = [_shares(store, record, sample) for record in records]
    taken = {family: store.disk_bytes(family) for family in layout.FAMILIES}
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
    """Estimated bytes by family of ``known`` tasks of a state. Bare tasks, which have a record only, show as a lack of
    entries.
    """
    entries = _first(store, family, number, sample)
    specs = store.get(layout.SPECS, [layout.spec_key_of(key) for key, _ in entries])
    taskids = [_taskid(state, entry, spec) for entry, spec in zip(entries, specs, strict=True)]
    mean_id = sum(map(len, taskids)) / len(taskids) if taskids else TASKID_BYTES
    yield layout.IDS, known * (mean_id + layout.DATED_RECORD.size)
    if entries:
        placed = known if len(entries) == sample else len(entries)
        yield family, placed * sum(map(_bytes, entries)) / len(entries)
        yield layout.SPECS, placed * sum(len(spec or b"") + SPEC_KEY_BYTES for spec in specs) / len(entries)
        attempts = sum(_history(store, number, taskid) for taskid in taskids)
        yield layout.HISTORY, placed * attempts / len(entries)
        keys = [layout.project_key(number) + taskid.encode(errors="replace") for taskid in taskids]
        results = zip(keys, store.get(layout.RESULTS, keys), strict=True)
        yield layout.RESULTS, placed * sum(len(key) + len(result) for key, result in results if result) / len(entries)


def _taskid(state: int, entry: Entry, spec: bytes | None) -> str:
    if state in OVER:
        return str(decode_record(layout.ORDERS[state], entry[0], over_entries.taskid_at, entry[1]), errors="replace")
    return "" if spec is None else decode_record(layout.SPECS, entry[0], layout.decode_spec, spec)[0]


def _history(store: StoreReader, number: int, taskid: str) -> int:
    prefix = layout.history_key(number, taskid)
    return sum(map(_bytes, store.scan(layout.HISTORY, prefix, prefix + b"\xff", HISTORY_MOST)))


def _first(store: StoreReader, family: Family, number: int, limit: int) -> Sequence[Entry]:
    return store.scan(family, layout.project_key(number), layout.project_key(number + 1), limit)


def _bytes(entry: Entry) -> int:
    return len(entry[0]) + len(entry[1])
