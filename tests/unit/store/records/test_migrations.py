"""A store of format 1, made by hand, has the present format once it has been opened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from struct import pack

import pytest
from msgspec.msgpack import encode
from rocksdict import Options, Rdict

from taskqueue.core.model.edges import TaskRef
from taskqueue.core.model.needs import Needs, PageRef
from taskqueue.core.model.task import DELAYED, FAILED, PROCESSING, READY, SUCCESS
from taskqueue.errors import Unreadable
from taskqueue.protocol.values import Attempt
from taskqueue.store.contract import Batch, Store
from taskqueue.store.ledger import Ledger
from taskqueue.store.records.format import FORMAT, FORMAT_KEY, META, Migrations
from taskqueue.store.records.migrations import ERRORS, MIGRATIONS, PAGE
from taskqueue.store.rocksdb.rocks_store import RocksStore
from tests.memory_store import Disk, MemoryStore

P = 7
END = b"\xff" * 8

Open = Callable[[Migrations], Store]
Row = tuple[str, int, int, float, str | None]
"""Columns taskid, seq, state, lastcrawltime, error."""


def memory() -> Open:
    disk = Disk()
    disk.add([ERRORS])
    return lambda migrations: MemoryStore(disk, migrations)


def rocks(path: Path) -> Open:
    RocksStore(path).close()
    families = {family: Options(raw_mode=True) for family in Rdict.list_cf(str(path))}
    database = Rdict(str(path), Options(raw_mode=True), families)
    database.create_column_family(ERRORS, Options(raw_mode=True)).close()
    database.close()
    return lambda migrations: RocksStore(path, migrations=migrations)


@pytest.fixture(params=["memory", "rocks"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    return memory() if request.param == "memory" else rocks(tmp_path)


def entries_of(row: Row) -> dict[str, tuple[bytes, bytes]]:
    taskid, seq, state, lastcrawltime, error = row
    place = pack(">QQ", 2**31 - 1, seq)
    record = pack(">BBiIQdd16s", state, 1, 0, 2, 5, 0.0, lastcrawltime, place) + b"itag"
    written = {
        "ids": (pack(">I", P) + taskid.encode(), record),
        "specs": (pack(">IQ", P, seq), encode((taskid, "http://site", {}, None))),
    }
    if error is not None:
        written[ERRORS] = (pack(">IQ", P, seq), error.encode())
    return written


def write_format_1(open_store: Open, rows: Sequence[Row], counts: dict[str, int] | None = None) -> None:
    """Write a store as version 1 would have left it."""
    store = open_store({})
    project: tuple[object, ...] = (P, "news", "running", {}, counts or {}, {}, 1.5, 77.25, bytes(16), bytes(16))
    puts = {META: [(FORMAT_KEY, b"1")], "projects": [(pack(">I", P), encode(project))]}
    for row in rows:
        for family, entry in entries_of(row).items():
            puts.setdefault(family, []).append(entry)
    store.write(store.begin(), Batch(puts=puts))
    store.close()


def history(store: Store, taskid: str) -> dict[int, Attempt]:
    ref = TaskRef(P, taskid)
    return Ledger(store).find(Needs(histories=[ref])).histories[ref]


def test_the_last_error_is_the_newest_attempt_of_the_history(open_store: Open) -> None:
    rows = [("a", 1, FAILED, 50.5, "404"), ("b", 2, DELAYED, 60.5, "timeout"), ("é", 3, PROCESSING, 70.5, "")]
    write_format_1(open_store, [*rows, ("none", 4, READY, 0.0, None)])

    store = open_store(MIGRATIONS)

    assert history(store, "a") == {9: Attempt(50.5, "failed", error="404")}
    assert history(store, "b") == {9: Attempt(60.5, "timeout", error="timeout")}
    assert history(store, "é") == {9: Attempt(70.5, "failed")}
    assert history(store, "none") == {}
    [page] = Ledger(store).find(Needs(pages=[PageRef(P, "", 10, whole=True, errors=True)])).pages.values()
    assert {taskid: last.error for taskid, last in page.attempts.items()} == {"a": "404", "b": "timeout", "é": ""}
    assert [(task.taskid, task.attempts, task.held_back, task.itag) for task in page.tasks] == [
        (taskid, 0, True, "itag") for taskid in ("a", "b", "none", "é")
    ]
    store.close()


def test_an_error_from_before_a_success_is_forgotten(open_store: Open) -> None:
    write_format_1(open_store, [("a", 1, SUCCESS, 50.5, "404")])

    store = open_store(MIGRATIONS)

    assert history(store, "a") == {}
    store.close()


def test_a_long_error_is_cut_in_its_middle_between_characters(open_store: Open) -> None:
    write_format_1(open_store, [("a", 1, FAILED, 50.5, "x" + "é" * 2047)])

    store = open_store(MIGRATIONS)

    error = history(store, "a")[9].error
    assert error.startswith("xéé")
    assert error.endswith("éé")
    assert len(error.encode()) <= 2048
    store.close()


def test_all_errors_of_a_large_store_are_taken_along_and_none_is_left(open_store: Open) -> None:
    count = 2 * PAGE + 3
    write_format_1(open_store, [(f"t{seq}", seq, FAILED, 5.0, f"error {seq}") for seq in range(count)])

    store = open_store(MIGRATIONS)

    assert len(store.scan("history", b"", END, count + 1)) == count
    assert [history(store, f"t{seq}")[9].error for seq in (0, PAGE, count - 1)] == [
        f"error {seq}" for seq in (0, PAGE, count - 1)
    ]
    assert store.scan(ERRORS, b"", END, 1) == []
    store.close()


@pytest.mark.parametrize(
    ("counts", "unfinished"), [({"ready": 2, "delayed": 3, "processing": 4, "failed": 5}, 9), ({}, 0)]
)
def test_a_project_has_yet_to_finish_what_is_live(open_store: Open, counts: dict[str, int], unfinished: int) -> None:
    write_format_1(open_store, [], counts)

    store = open_store(MIGRATIONS)

    [project] = Ledger(store).begin("boot").projects
    assert (project.name, project.unfinished, project.armed) == ("news", unfinished, unfinished > 0)
    assert (project.bucket_level, project.bucket_at) == (1.5, 77.25)
    store.close()


class Cut(Exception):
    """The machine stopped."""


@pytest.mark.parametrize("writes", range(5))
def test_a_step_that_was_cut_off_is_done_again_from_its_start(open_store: Open, writes: int) -> None:
    count = PAGE + 5
    write_format_1(open_store, [(f"t{seq}", seq, FAILED, 5.0, "why") for seq in range(count)], {"ready": 2})

    def cut_off(store: Store, epoch: int) -> None:
        cut = CutOff(store, writes)
        MIGRATIONS[1](cut, epoch)
        cut.close()

    with pytest.raises(Cut):
        open_store({**MIGRATIONS, 1: cut_off})
    store = open_store(MIGRATIONS)

    assert len(store.scan("history", b"", END, count + 1)) == count
    assert store.scan(ERRORS, b"", END, 1) == []
    assert Ledger(store).begin("boot").projects[0].unfinished == 2
    assert store.get(META, [FORMAT_KEY]) == [b"%d" % FORMAT]
    store.close()


class CutOff:
    """Store that takes a number of writes, before the machine stops."""

    def __init__(self, store: Store, writes: int) -> None:
        self._store = store
        self._writes = writes
        self.begin, self.get, self.sync = store.begin, store.get, store.sync
        self.scan, self.scan_back = store.scan, store.scan_back
        self.levels, self.log_bytes = store.levels, store.log_bytes

    def write(self, epoch: int, batch: Batch) -> None:
        if not self._writes:
            self.close()
        self._writes -= 1
        self._store.write(epoch, batch)

    def close(self) -> None:
        self._store.close()
        raise Cut


def test_what_can_not_be_read_stops_it(open_store: Open) -> None:
    write_format_1(open_store, [("a", 1, FAILED, 5.0, "why")])
    store = open_store({**MIGRATIONS, 1: lambda store, epoch: None})
    store.write(store.begin(), Batch(puts={META: [(FORMAT_KEY, b"1")], "specs": [(pack(">IQ", P, 1), b"\xc1")]}))
    store.close()

    with pytest.raises(Unreadable, match="family specs"):
        open_store(MIGRATIONS)
