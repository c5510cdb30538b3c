"""Statistics of a store: tasks, bytes, levels, and whether its cache is large enough for the ids.

A link that a crawler finds is looked up by its taskid, and mostly it is known. That is fast only if two things are in
memory: in the store's cache the indexes and filters of the tables of ``ids``; and in the operating system's file cache,
or else in the store's, too, the tables themselves. Without the first each look-up reads whole filters again, which is
ten times slower; without the second it waits for the disk.

    index and filter    2 to 3 bytes an id         in the cache, of which one part in IDS_PART suffices
    tables              about 45 bytes an id       in the system's file cache
"""

from __future__ import annotations

from typing import Final, Protocol

from msgspec import Struct

from taskqueue.core.parts.counts import TaskCounts
from taskqueue.core.tasks.records import ProjectRecord
from taskqueue.core.tasks.task import STATE_NAMES
from taskqueue.protocol.choices import ProjectState
from taskqueue.store.contract import Family, StoreReader
from taskqueue.store.records import layout
from taskqueue.store.records.decoding import decode_record
from taskqueue.store.records.format import FORMAT
from taskqueue.store.records.pages import pages
from taskqueue.store.rocksdb.read_only import ReadOnlyStore, TableStats


class ProjectStats(Struct, frozen=True):
    """A project's tasks by state; exact."""

    name: str
    state: ProjectState
    counts: TaskCounts


class FamilyStats(Struct, frozen=True):
    """One family.

    Attributes:
        keys: estimated number.
        table_bytes: on disk.
        log_bytes: in the write-ahead log and the memtables of a running daemon, but not in tables yet.
    """

    name: str
    keys: int
    table_bytes: int
    log_bytes: int


class LevelStats(Struct, frozen=True):
    """The tables of one level of the LSM tree, of all families."""

    level: int
    tables: int
    table_bytes: int


IDS_PART: Final = 2
"""Indexes and filters of ids may take one part in IDS_PART of the cache; the rest is for what changes."""


class CacheStats(Struct, frozen=True):
    """Whether the cache is large enough for the ids.

    Attributes:
        id_bytes: bytes of index and filter per id; 0: no id is in a table yet.
        needed_bytes: a ``store.cache`` that is enough for all known tasks.
        configured_bytes: the present ``store.cache``.
        table_bytes: of the tables of ids, which are read through the system's file cache.
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
    """All statistics of a store.

    Attributes:
        tasks: number of known tasks.
        file_bytes: of all files, ``log_bytes`` of logs included.
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
    """One family of a store in a database: a table.

    Attributes:
        keys: estimated number.
        table_bytes: with the index, dead rows and free room.
    """

    name: str
    keys: int
    table_bytes: int


class DatabaseStats(Struct, frozen=True):
    """All statistics of a store in a database.

    Attributes:
        tasks: number of known tasks.
        table_bytes: of all families.
    """

    path: str
    format: int
    epoch: int
    tasks: int
    table_bytes: int
    projects: list[ProjectStats]
    families: list[TableFamily]


class SizedReader(StoreReader, Protocol):
    """A view of a store that tells its size.

    Attributes:
        path: folder, or database, for messages.
        epoch: the newest that was begun in it.
    """

    path: str
    epoch: int

    def keys(self, family: Family) -> int:
        """Estimated number of keys in a family."""

    def disk_bytes(self, family: Family) -> int:
        """About how many bytes of the disk a family takes."""


def read_stats(store: ReadOnlyStore, cache_bytes: int) -> StoreStats:
    """Statistics of a store whose daemon has a cache of ``cache_bytes``. Costs as much as its projects, not its tasks.

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
    """Statistics of a store in a database. Costs as much as its projects, not its tasks; raises the same."""
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
    """Records of all projects, by number.

    Raises:
        Unreadable: one can't be decoded.
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
    """Bytes of index and filter per entry that is no deletion; 0: there is none."""
    values = ids.entries - ids.deletions
    if values <= 0:
        return 0.0
    return (ids.index_bytes + ids.filter_bytes) / values
