"""Estimates of the disk that each project takes."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from msgspec import Raw

from taskqueue.core.model.records import KeptAttempt, ProjectRecord, WriteSet
from taskqueue.core.model.spec import Spec
from taskqueue.core.model.task import BLOCKED, FAILED, READY, Move, Task, ready_key, time_key
from taskqueue.protocol.values import Attempt, Schedule, TaskCounts
from taskqueue.store.ledger import Ledger
from taskqueue.store.records import layout
from taskqueue.store.rocksdb.rocks_snapshot import ReadOnlyStore
from taskqueue.store.rocksdb.rocks_store import RocksStore
from taskqueue.store.tools.store_stats import Sizes, sizes_of
from tests.unit.store.conftest import Crawl

BIN_16 = b"\xc5"


def made(random: Random, project: int, seq: int, state: int, body_bytes: int) -> Move:
    """Make a task whose body can't be compressed."""
    key = ready_key(0, seq) if state == READY else time_key(1.7e9, seq)
    task = Task(project, random.randbytes(16).hex(), state, key, seq)
    body = Raw(BIN_16 + body_bytes.to_bytes(2, "big") + random.randbytes(body_bytes))
    task.spec = Spec(f"http://site/{task.taskid}", Schedule(), body)
    task.attempts = int(state == FAILED)
    return task, 0, 0, 0, True, False


def sizes(path: str) -> Sizes:
    with closing(ReadOnlyStore(path)) as reader:
        return sizes_of(reader)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Make a store with 600 tasks of 10 kB in ``large``, half of them failed, 3,000 of 300 bytes in ``small``.

    ``empty`` has no tasks; half of the entries is in tables, half in the log.
    """
    random = Random(1)
    with closing(RocksStore(tmp_path)) as store:
        ledger = Ledger(store)
        ledger.begin("boot-1")
        for part in range(2):
            first = 10_000 * part
            moves = [made(random, 1, first + n, FAILED if n % 2 else READY, 10_000) for n in range(300)]
            moves += [made(random, 2, first + n, READY, 300) for n in range(1500)]
            failed = [
                KeptAttempt(1, task.taskid, 0, Attempt(1.7e9, "failed", "fetcher", 1.0, "no title"))
                for task, *_ in moves
                if task.state == FAILED
            ]
            ledger.commit(WriteSet(moves=moves, attempts=failed))
            if not part:
                store.compact()
        records = [
            ProjectRecord(1, "large", counts=TaskCounts(ready=300, failed=300)),
            ProjectRecord(2, "small", counts=TaskCounts(ready=3000)),
            ProjectRecord(3, "empty"),
        ]
        ledger.commit(WriteSet(projects=records))
    return str(tmp_path)


def test_the_largest_project_comes_first_with_about_what_its_bodies_take(path: str) -> None:
    found = sizes(path)

    large, small, empty = found.projects
    assert [(size.name, size.tasks) for size in found.projects] == [("large", 600), ("small", 3000), ("empty", 0)]
    assert large.families[layout.SPECS] == pytest.approx(600 * 10_100, rel=0.1)
    assert small.families[layout.SPECS] == pytest.approx(3000 * 400, rel=0.3)
    assert small.families[layout.IDS] == pytest.approx(5 * large.families[layout.IDS], rel=0.1)
    assert small.families.get(layout.HISTORY, 0) == 0 < large.families[layout.HISTORY]
    assert empty.size_bytes < 10_000


def test_all_of_them_and_what_is_shared_add_up_to_what_the_store_takes(path: str) -> None:
    found = sizes(path)
    with closing(ReadOnlyStore(path)) as reader:
        taken = sum(reader.table_bytes(family) + reader.log_bytes(family) for family in layout.FAMILIES)

    assert sum(size.size_bytes for size in found.projects) + found.shared_bytes == pytest.approx(taken, abs=50)


def test_a_task_of_every_kind_can_be_measured(stored: Crawl) -> None:
    news, empty = sizes(stored.path).projects

    assert (news.name, news.tasks, empty.name) == ("news", 9, "empty")
    of_tasks = {layout.IDS, layout.SPECS, layout.HISTORY, layout.RESULTS, layout.DEFERRED, *layout.ORDERS.values()}
    assert of_tasks - {layout.ORDERS[BLOCKED]} <= set(news.families)


def test_the_size_of_a_project_is_that_of_all_its_families(path: str) -> None:
    for size in sizes(path).projects:
        assert size.size_bytes == sum(size.families.values())
