"""A ledger on every store; a store with a task of every kind, in memory and on disk; exports of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec import Raw

from taskqueue.core.model.lease import Lease
from taskqueue.core.model.records import KeptAttempt, ProjectRecord, WriteSet
from taskqueue.core.model.spec import Spec
from taskqueue.core.model.task import (
    CANCELLED,
    DELAYED,
    FAILED,
    PROCESSING,
    READY,
    STATE_NAMES,
    SUCCESS,
    Move,
    Task,
    ready_key,
    time_key,
)
from taskqueue.protocol.fields import Boot, Token
from taskqueue.protocol.values import Attempt, NewTask, Schedule, TaskCounts
from taskqueue.store.contract import Batch, Family, Store, StoreReader
from taskqueue.store.ledger import Ledger
from taskqueue.store.records import layout
from taskqueue.store.records.format import META
from taskqueue.store.rocksdb.rocks_snapshot import ReadOnlyStore
from taskqueue.store.rocksdb.rocks_store import RocksStore
from taskqueue.store.tools.consistency import check
from taskqueue.store.tools.export_format import JSON, ExportFormat
from taskqueue.store.tools.exporter import History, export_lines
from taskqueue.store.tools.findings import Findings
from taskqueue.store.tools.store_stats import project_records
from tests.memory_store import Disk, MemoryStore


class Ground:
    """Place of successive ledgers: each finds what the one before it left.

    Attributes:
        store: store of the newest ledger. Others use it as well, so it must not be closed.
    """

    def __init__(self, make: Callable[[], Store]) -> None:
        self._make = make
        self.store = make()

    def open(self) -> Ledger:
        """Make another ledger, which hasn't begun; the former one was not stopped."""
        self.store = self._make()
        return Ledger(self.store)


@pytest.fixture(scope="session")
def empty_rocks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], RocksStore]]:
    """Empty the one store on disk that all these tests share, and return it.

    It must stay open, since opening one takes 36 ms of CPU.
    """
    with closing(RocksStore(tmp_path_factory.mktemp("rocks"))) as store:
        meta = store.scan(META, b"", layout.LAST_KEY, 100)

        def empty() -> RocksStore:
            drops = [(family, b"", layout.LAST_KEY) for family in layout.FAMILIES]
            store.write(store.begin(), Batch(drops=drops, puts={META: meta}))
            return store

        yield empty


@pytest.fixture(params=["memory", "rocks"])
def ground(request: pytest.FixtureRequest, empty_rocks: Callable[[], RocksStore]) -> Ground:
    """Make a disk in memory, or use the store on disk that all these tests share and that stays open."""
    if request.param == "rocks":
        rocks = empty_rocks()
        return Ground(lambda: rocks)
    disk = Disk()
    return Ground(lambda: MemoryStore(disk))


@pytest.fixture
def ledger(ground: Ground) -> Ledger:
    """Begin a ledger on an empty store."""
    ledger = ground.open()
    ledger.begin("boot-1")
    return ledger


# ------------------------------------------------------------------------------------------------ a store on disk

NEWS = 1
"""Number of the project that has a task of every kind."""

CLEARED = 50
"""Largest seq of its tasks that were cleared."""

RESULTS = {"ended": Raw(b"\x81\xa1r\xc4\x01b"), "leased": Raw(b"\x07"), "left": Raw(b"\xc3")}
"""Results by taskid."""


class Crawl:
    """Store with the projects news and empty, not open.

    Tasks of news, by taskid: ready-1, ready-2, delayed, leased (its record says ready), unlisted (leased, without a
    record), ended (success), failed, cancelled, bare, and left, which ``clear`` has dropped. RESULTS has their results.

    Attributes:
        path: its folder; empty for a store in memory, which opens at no cost; on disk, opening takes 36 ms of CPU.
        disk: its disk in memory if it has no folder.
    """

    def __init__(self, path: str = "") -> None:
        self.path = path
        self.disk = Disk()

    def open(self) -> Store:
        """Open the store; it must be closed before another reader opens it."""
        return RocksStore(Path(self.path)) if self.path else MemoryStore(self.disk)

    def look(self) -> ReadOnlyStore | Store:
        """Open the store as it is now, to be read only."""
        return ReadOnlyStore(self.path) if self.path else MemoryStore(self.disk)

    def write(self, batch: Batch) -> None:
        """Write any batch, sound or not."""
        with closing(self.open()) as store:
            store.write(store.begin(), batch)

    def put(self, family: Family, key: bytes, value: bytes) -> None:
        """Put an entry, sound or not."""
        self.write(Batch(puts={family: [(key, value)]}))

    def delete(self, family: Family, key: bytes) -> None:
        """Delete an entry, even if others need it."""
        self.write(Batch(deletes={family: [key]}))

    def get(self, family: Family, key: bytes) -> bytes:
        """Return the value at a key."""
        with closing(self.look()) as reader:
            found = reader.get(family, [key])[0]
        assert found is not None
        return found

    def task(self, taskid: str) -> Task:
        """Return the task of a record."""
        return layout.task_of(NEWS, taskid, self.get(layout.IDS, layout.id_key(NEWS, taskid)))

    def place(self, taskid: str) -> bytes:
        """Return the key of a task's entry in its order."""
        return layout.order_key(NEWS, self.task(taskid).key)

    def project(self) -> ProjectRecord:
        """Return the record of news."""
        return layout.decode_project(self.get(layout.PROJECTS, layout.project_key(NEWS)))

    def check(self, most: int = 100) -> Findings:
        """Check the store, keeping at most this number of problems."""
        with closing(self.look()) as reader:
            return check(reader, Findings(most))


def _task(taskid: str, state: int, seq: int, at: float = 0.0, priority: int = 0) -> Task:
    key = ready_key(priority, seq) if state == READY else seq if state == PROCESSING else time_key(at, seq)
    task = Task(NEWS, taskid, state, key, seq, priority, at if state == DELAYED else 0.0)
    task.spec = Spec(f"http://site/{taskid}", Schedule(priority=priority), Raw(b"\x81\xa1a\xc4\x01b"), depth=2)
    return task


def _made(task: Task) -> Move:
    return task, 0, 0, 0, True, False


def _fill(store: Store) -> None:
    """Fill the store as a daemon would, turn by turn."""
    with closing(store):
        ledger = Ledger(store)
        ledger.begin("boot-1")
        tasks = {
            task.taskid: task
            for task in (
                _task("left", READY, 40),
                _task("ready-1", READY, 101, priority=5),
                _task("ready-2", READY, 102),
                _task("delayed", DELAYED, 103, 2e9),
                _task("leased", READY, 104),
                _task("unlisted", PROCESSING, 105),
                _task("ended", SUCCESS, 106, 1.5e9),
                _task("failed", FAILED, 107, 1.6e9),
                _task("cancelled", CANCELLED, 108, 1.7e9),
                _task("bare", SUCCESS, 109, 1.4e9),
            )
        }
        leased, unlisted, ended, failed = (tasks[taskid] for taskid in ("leased", "unlisted", "ended", "failed"))
        for taskid in RESULTS:
            tasks[taskid].has_result = True
        unlisted.token = Token(301)
        unlisted.lease = Lease("fetcher", 1, Boot(1000.0), Boot(400.0))
        ended.ended = Attempt(1.5e9, "success", "fetcher", 0.5)
        ended.attempts = failed.attempts = 1
        ended.lastcrawltime = failed.lastcrawltime = 1.5e9
        failed.retried, failed.held_back, failed.itag = 3, True, "v1"
        failed.job = "monday"
        counts = TaskCounts(ready=2, delayed=1, processing=2, success=2, failed=1, cancelled=1)
        news = ProjectRecord(NEWS, "news", "paused", {"rate": float("inf")}, counts)
        news.cleared, news.unfinished, news.armed = CLEARED, 5, True
        ledger.commit(
            WriteSet(
                moves=[_made(task) for task in tasks.values()],
                attempts=[KeptAttempt(NEWS, "failed", 0, Attempt(1.6e9, "failed", "fetcher", 0.5, "no title"))],
                results={(NEWS, taskid): result for taskid, result in RESULTS.items()},
                projects=[news, ProjectRecord(2, "empty")],
                next_project=3,
            )
        )
        leased.token = Token(300)
        leased.lease = Lease(
            "fetcher", 1, Boot(1000.0), Boot(400.0), NewTask("leased", "http://site/other", Schedule(priority=9))
        )
        move = (leased, READY, leased.key, leased.seq, False, False)
        leased.state, leased.key = PROCESSING, leased.seq
        ledger.commit(WriteSet(moves=[move]))
        _strip(store, tasks["left"], tasks["bare"])


def _strip(store: Store, left: Task, bare: Task) -> None:
    """Remove what these tasks lack, and the record of the unlisted one."""
    places = layout.order_key(NEWS, left.key), layout.order_key(NEWS, bare.key)
    store.write(
        1,
        Batch(
            puts={layout.IDS: [(layout.id_key(NEWS, "bare"), layout.encode_bare(bare))]},
            deletes={
                layout.ORDERS[READY]: [places[0]],
                layout.ORDERS[SUCCESS]: [places[1]],
                layout.SPECS: [layout.seq_key(NEWS, bare.seq)],
                layout.IDS: [layout.id_key(NEWS, "unlisted")],
            },
        ),
    )


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with the crawl, to be copied."""
    path = tmp_path_factory.mktemp("filled") / "store"
    _fill(RocksStore(path))
    return path


@pytest.fixture
def stored(filled: Path, tmp_path: Path) -> Crawl:
    """Make a crawl with a task of every kind, in the test's own folder."""
    return Crawl(shutil.copytree(filled, str(tmp_path / "store")))


@pytest.fixture
def crawl() -> Crawl:
    """Make a crawl with a task of every kind, in memory."""
    crawl = Crawl()
    _fill(crawl.open())
    return crawl


# ------------------------------------------------------------------------------------------------ export and import

ALL = range(1, len(STATE_NAMES))
"""All states of a task."""


@pytest.fixture
def new() -> Disk:
    """Make an empty disk in memory, for an import."""
    return Disk()


def lines_of(
    reader: StoreReader,
    *names: str,
    states: Iterable[int] = ALL,
    form: ExportFormat = JSON,
    history: History = "all",
) -> list[bytes]:
    """Export these projects, or all, as lines."""
    records = [record for record in project_records(reader) if not names or record.name in names]
    return list(export_lines(reader, records, list(states), form, history=history))


def exported(
    disk: Disk, *names: str, states: Iterable[int] = ALL, form: ExportFormat = JSON, history: History = "all"
) -> list[bytes]:
    """Export these projects, or all, from a disk in memory, as lines."""
    with closing(MemoryStore(disk)) as reader:
        return lines_of(reader, *names, states=states, form=form, history=history)
