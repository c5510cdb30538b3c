"""Statistics of a store: tasks, bytes, levels, the cache that it needs, and the size of each project.

Most links that a crawler finds are known, and found by taskid. That is fast only if two things are in memory: the
indexes and filters of the tables of ``ids``, in the store's cache; and the tables themselves, in the operating system's
file cache or the store's. Without the first each look-up reads whole filters again, which is
ten times slower; without the second it waits for the disk.

    index and filter    2 to 3 bytes an id         in the cache, in one part in IDS_PART of it
    tables              about 45 bytes an id       in the system's file cache

The size of each project is estimated from samples:

    samples of each state ──► mean bytes in each family × tasks ──► shares ──► actual bytes of the family, divided

A store reports the bytes of a family, compressed and with overwritten values; they are divided by samples of the first
tasks of each state, so a project whose later tasks are much larger is underestimated. The estimates add up to the
actual bytes of the families. They cost a few reads per project, however large it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from msgspec import Struct

from taskqueue.core.model.records import ProjectRecord
from taskqueue.core.model.task import OVER, STATE_NAMES
from taskqueue.protocol.choices import ProjectState
from taskqueue.protocol.values import TaskCounts
from taskqueue.store.contract import Entry, Family, StoreReader
from taskqueue.store.records import layout
from taskqueue.store.records.format import FORMAT
from taskqueue.store.records.reading import decode_record, pages
from taskqueue.store.rocksdb.rocks_snapshot import ReadOnlyStore, TableStats


class ProjectStats(Struct, frozen=True):
    """Tasks of a project by state; exact."""

    name: str
    state: ProjectState
    counts: TaskCounts


class FamilyStats(Struct, frozen=True):
    """Statistics of one family.

    Attributes:
        keys: estimated number.
        table_bytes: bytes of its tables on disk.
        log_bytes: bytes in the write-ahead log and the memtables of a running daemon, but not in tables yet.
    """

    name: str
    keys: int
    table_bytes: int
    log_bytes: int


class LevelStats(Struct, frozen=True):
    """Tables of one level of the LSM tree, of all families."""

    level: int
    tables: int
    table_bytes: int


IDS_PART: Final = 2
"""Divisor of the cache: indexes and filters of ids may take one part in IDS_PART; the rest is for changing entries."""


class CacheStats(Struct, frozen=True):
    """Cache that the ids need.

    Attributes:
        id_bytes: bytes of index and filter per id; 0 if no id is in a table yet.
        needed_bytes: ``store.cache`` that is enough for all known tasks.
        configured_bytes: present ``store.cache``.
        table_bytes: bytes of the tables of ids, which are read through the system's file cache.
    """

    id_bytes: float
    needed_bytes: int
    configured_bytes: int
    table_bytes: int

    @property
    def is_short(self) -> bool:
        """Whether look-ups of known tasks read indexes and filters again and again."""
        return self.needed_bytes > self.configured_bytes


class StoreStats(Struct, frozen=True):
    """Statistics of a store.

    Attributes:
        tasks: number of known tasks.
        file_bytes: bytes of all files, ``log_bytes`` of logs included.
    """

    path: str
    format: int
    epoch: int
    tasks: int
    file_bytes: int
    log_bytes: int
    projects: list[ProjectStats]
    families: list[FamilyStats]
    levels: list[LevelStats]
    cache: CacheStats


class TableFamily(Struct, frozen=True):
    """Statistics of one family of a store in a database, which is a table.

    Attributes:
        keys: estimated number.
        table_bytes: bytes with the index, dead rows and free room.
    """

    name: str
    keys: int
    table_bytes: int


class DatabaseStats(Struct, frozen=True):
    """Statistics of a store in a database.

    Attributes:
        tasks: number of known tasks.
        table_bytes: bytes of all families.
    """

    path: str
    format: int
    epoch: int
    tasks: int
    table_bytes: int
    projects: list[ProjectStats]
    families: list[TableFamily]


class SizedReader(StoreReader, Protocol):
    """View of a store that can report its size.

    Attributes:
        path: folder, or database, for messages.
        epoch: newest epoch that was begun in it.
    """

    path: str
    epoch: int

    def keys(self, family: Family) -> int:
        """Estimate the number of keys in a family."""

    def disk_bytes(self, family: Family) -> int:
        """Estimate the bytes of disk that a family takes."""


def read_stats(store: ReadOnlyStore, cache_bytes: int) -> StoreStats:
    """Read the statistics of a store; the cost grows with its projects, not its tasks.

    Args:
        cache_bytes: size of the daemon's cache.

    Raises:
        StoreError: the store can't be read.
        Unreadable: a project's record can't be decoded.
    """
    projects = _projects(store)
    tasks = _tasks(projects)
    return StoreStats(
        path=store.path,
        format=FORMAT,
        epoch=store.epoch,
        tasks=tasks,
        file_bytes=store.snapshot.file_bytes,
        log_bytes=store.snapshot.log_bytes,
        projects=projects,
        families=[
            FamilyStats(name, store.keys(name), store.table_bytes(name), store.log_bytes(name))
            for name in layout.FAMILIES
        ],
        levels=[LevelStats(level, len(sizes), sum(sizes)) for level, sizes in store.levels().items()],
        cache=_cache(store, tasks, cache_bytes),
    )


def read_database_stats(store: SizedReader) -> DatabaseStats:
    """Read the statistics of a store in a database; the cost grows with its projects, not its tasks.

    Raises:
        StoreError: the store can't be read.
        Unreadable: a project's record can't be decoded.
    """
    projects = _projects(store)
    families = [TableFamily(name, store.keys(name), store.disk_bytes(name)) for name in layout.FAMILIES]
    return DatabaseStats(
        path=store.path,
        format=FORMAT,
        epoch=store.epoch,
        tasks=_tasks(projects),
        table_bytes=sum(family.table_bytes for family in families),
        projects=projects,
        families=families,
    )


def project_records(store: StoreReader) -> list[ProjectRecord]:
    """Read the records of all projects, by number.

    Raises:
        Unreadable: a record can't be decoded.
    """
    entries = (entry for page in pages(store, layout.PROJECTS) for entry in page)
    return [decode_record(layout.PROJECTS, key, _record, key, value) for key, value in entries]


def _record(key: bytes, value: bytes) -> ProjectRecord:
    record = layout.decode_project(value)
    if layout.project_of(key) != record.number:
        raise ValueError(f"the record has number {record.number}")
    return record


def _projects(store: StoreReader) -> list[ProjectStats]:
    projects = [ProjectStats(record.name, record.state, record.counts) for record in project_records(store)]
    return sorted(projects, key=lambda project: project.name)


def _tasks(projects: list[ProjectStats]) -> int:
    return sum(getattr(project.counts, name) for project in projects for name in STATE_NAMES[1:])


def _cache(store: ReadOnlyStore, tasks: int, cache_bytes: int) -> CacheStats:
    id_bytes = _id_bytes(store.tables(layout.IDS))
    needed = round(IDS_PART * tasks * id_bytes)
    return CacheStats(round(id_bytes, 1), needed, cache_bytes, store.table_bytes(layout.IDS))


def _id_bytes(ids: TableStats) -> float:
    """Compute the bytes of index and filter per entry, deletions left out; 0 without entries."""
    values = ids.entries - ids.deletions
    if values <= 0:
        return 0.0
    return (ids.index_bytes + ids.filter_bytes) / values


# ------------------------------------------------------------------------------------------------ sizes of projects

SAMPLES: Final = 20_000
"""Tasks sampled in all, divided among the projects."""

SAMPLE_MOST: Final = 100
SAMPLE_LEAST: Final = 4
"""Tasks sampled of one state of a project, at least (SAMPLE_LEAST) and at most (SAMPLE_MOST)."""

TASKID_BYTES: Final = 32
"""Assumed length of taskids without samples: that of taskids which clients derive from URLs."""

SPEC_KEY_BYTES: Final = 12

HISTORY_MOST: Final = 16
"""Attempts to read per task, more than any task has."""

Shares = dict[Family, float]
"""Bytes by family, before compression."""


class ProjectSize(Struct, frozen=True):
    """Estimated size of a project on disk.

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
    """Estimate the bytes by family of ``known`` tasks of a state; bare tasks, with only a record, lack entries."""
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
        return str(decode_record(layout.ORDERS[state], entry[0], layout.taskid_at, entry[1]), errors="replace")
    return "" if spec is None else decode_record(layout.SPECS, entry[0], layout.decode_spec, spec)[0]


def _history(store: StoreReader, number: int, taskid: str) -> int:
    prefix = layout.history_key(number, taskid)
    return sum(map(_bytes, store.scan(layout.HISTORY, prefix, prefix + b"\xff", HISTORY_MOST)))


def _first(store: StoreReader, family: Family, number: int, limit: int) -> Sequence[Entry]:
    return store.scan(family, layout.project_key(number), layout.project_key(number + 1), limit)


def _bytes(entry: Entry) -> int:
    return len(entry[0]) + len(entry[1])
