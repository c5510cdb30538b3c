"""Puts in a batch of a log, as RocksDB wrote it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from taskqueue.store.contract import Batch
from taskqueue.store.files.log_records import Record, records_of
from taskqueue.store.files.log_recovery import lost_task_lines, puts_of
from taskqueue.store.files.manifest import read_manifest
from taskqueue.store.rocksdb.rocks_store import RocksStore


def test_the_puts_of_a_batch_are_found_among_its_other_changes(tmp_path: Path) -> None:
    with closing(RocksStore(tmp_path)) as store:
        epoch = store.begin()
        puts = {"ids": [(b"a", b""), (b"b" * 300, b"x" * 300)], "specs": [(b"c", b"1")]}
        store.write(epoch, Batch(puts, {"ids": [b"d"]}, [("ready", b"e", b"f")]))
        name = (tmp_path / "CURRENT").read_text().strip()
        with (tmp_path / name).open("rb") as file:
            families = read_manifest(name, file).families
        (log,) = tmp_path.glob("*.log")
        with log.open("rb") as file:
            *_, last = records_of(file)

    assert isinstance(last, Record)
    found = [(families[family], key) for family, key in puts_of(last.data)]
    assert sorted(found) == [("ids", b"a"), ("ids", b"b" * 300), ("specs", b"c")]


def test_the_first_tasks_of_each_project_are_named() -> None:
    lost = {2: {"z"}, 1: {"b", "a", "c"}}

    assert list(lost_task_lines(lost, {1: "news"}, 2)) == [
        "project=news tasks=3: changes of these are lost: a b …",
        "project=#2 tasks=1: changes of these are lost: z",
    ]
