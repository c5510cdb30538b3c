"""Figures of a store: exact where promised, and a warning if the cache is too small."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from taskqueue.protocol.values import TaskCounts
from taskqueue.store.contract import Batch
from taskqueue.store.rocksdb.rocks_snapshot import ReadOnlyStore
from taskqueue.store.rocksdb.rocks_store import RocksStore
from taskqueue.store.tools.store_stats import StoreStats, read_stats
from tests.unit.store.conftest import Crawl


def figures(path: str, cache_bytes: int = 1 << 20) -> StoreStats:
    with closing(ReadOnlyStore(path)) as reader:
        return read_stats(reader, cache_bytes)


def test_tasks_are_counted_by_project_and_state(stored: Crawl) -> None:
    found = figures(stored.path)

    assert [(project.name, project.state) for project in found.projects] == [("empty", "running"), ("news", "paused")]
    assert found.projects[1].counts == TaskCounts(ready=2, delayed=1, processing=2, success=2, failed=1, cancelled=1)
    assert found.tasks == 9


def test_bytes_are_those_of_the_files(stored: Crawl) -> None:
    with closing(RocksStore(stored.path)) as store:
        store.compact()
    found = figures(stored.path)

    tables = sum(file.stat().st_size for file in Path(stored.path).glob("*.sst"))
    assert sum(family.table_bytes for family in found.families) == tables
    assert sum(level.table_bytes for level in found.levels) == tables
    assert found.file_bytes > tables


def test_what_is_not_in_tables_yet_is_counted_apart(stored: Crawl) -> None:
    with closing(RocksStore(stored.path)) as store:
        store.write(store.begin(), Batch(puts={"specs": [(b"x" * 12, b"y" * 100_000)]}))
        found = figures(stored.path)

    specs = next(family for family in found.families if family.name == "specs")
    assert specs.log_bytes > 100_000
    assert found.log_bytes > 100_000


def test_an_id_needs_its_part_of_index_and_filter_in_the_cache(tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    with closing(RocksStore(path)) as store:
        epoch = store.begin()
        store.write(epoch, Batch(puts={"ids": [(b"%036d" % n, bytes(50)) for n in range(20_000)]}))
        store.compact()
        store.write(epoch, Batch(deletes={"ids": [b"%036d" % n for n in range(0, 20_000, 2)]}))

    found = figures(path)

    filter_bytes, index_bytes = 20_000 * 10 / 8, 20_000 * 86 / 4096 * 36
    assert 0.8 * filter_bytes / 10_000 < found.cache.id_bytes < 1.5 * (filter_bytes + index_bytes) / 10_000
    assert found.cache.needed_bytes == 0  # there is no task
    assert found.cache.table_bytes > 0


def test_a_cache_that_is_too_short_for_the_ids_is_told(stored: Crawl) -> None:
    with closing(RocksStore(stored.path)) as store:
        store.compact()

    needed = figures(stored.path).cache.needed_bytes

    assert not figures(stored.path, needed).cache.is_short
    assert figures(stored.path, needed - 1).cache.is_short


def test_before_any_id_is_in_a_table_nothing_is_said_of_the_cache(tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    with closing(RocksStore(path)) as store:
        store.begin()

    assert figures(path).cache.id_bytes == 0
    assert not figures(path).cache.is_short
