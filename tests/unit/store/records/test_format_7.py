"""A store, a backup and exports of format 7, in ``tests/former_stores``, have their settings by the present names."""

from __future__ import annotations

import tarfile
from contextlib import closing
from math import inf
from pathlib import Path
from typing import Any

import pytest

from taskqueue.calendar import Calendar
from taskqueue.protocol.value_stream import lines, values
from taskqueue.settings.settings import KeepSettings, Settings, check, merge
from taskqueue.settings.slots import SlotChoice, SlotSettings
from taskqueue.store.contract import Store
from taskqueue.store.records import layout
from taskqueue.store.records.migrations import rename_settings
from taskqueue.store.rocksdb.rocks_store import RocksStore
from taskqueue.store.tools.backup import restore
from taskqueue.store.tools.consistency import check as check_store
from taskqueue.store.tools.export_format import JSON, MESSAGEPACK, ExportFormat
from taskqueue.store.tools.findings import Findings
from taskqueue.store.tools.importer import import_lines
from taskqueue.store.tools.store_stats import project_records
from tests.memory_store import Disk, MemoryStore

FORMAT_7 = Path(__file__).parents[3] / "former_stores" / "format_7"

SAID: dict[str, dict[str, Any]] = {
    "news": {
        "rate": 5,
        "slot": {
            "by": "host",
            "delay": "auto",
            "min_delay": 2,
            "max_delay": "1m",
            "burst": 2,
            "max_processing": inf,
            "max_tasks": 100,
            "patterns": {
                "*.example.org": {"delay": "10s", "max_processing": 2},
                "a.example": {"rate": 3, "burst": 2},
                "b.example": None,
            },
        },
        "keep": {"success": "30d", "failed": inf, "cancelled": 90, "then": "forget"},
    },
    "shop": {"slot": {"by": "named", "rate": 0.5, "burst": 4}, "keep": {"then": "remember"}},
    "free": {"slot": {"rate": inf}, "keep": {"failed": "1h"}},
    "endless": {"slot": {"patterns": {"*": {"max_processing": inf}}}, "keep": {"cancelled": inf}},
    "plain": {"retries": 1},
}
"""Overrides of ``project-set`` there, by project, under the present names."""

NEWS = Settings(
    rate=5.0,
    slot=SlotSettings(
        by="host",
        delay="auto",
        min_delay=2.0,
        max_delay=60.0,
        burst=2.0,
        max_processing=inf,
        max_tasks=100.0,
        patterns={
            "*.example.org": SlotChoice(delay=10.0, max_processing=2.0),
            "a.example": SlotChoice(rate=3, burst=2),
        },
    ),
    keep=KeepSettings(success=2_592_000.0, cancelled=90.0, then="forget"),
)


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    with tarfile.open(FORMAT_7 / "store.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def assert_is_as_said(store: Store) -> None:
    records = {record.name: record for record in project_records(store)}

    assert {name: record.overrides for name, record in records.items()} == SAID
    assert {name: record.counts.ready for name, record in records.items() if record.counts.ready} == {
        "news": 2,
        "plain": 1,
    }
    for record in records.values():
        check(merge({}, record.overrides), Calendar())
    assert merge({}, records["news"].overrides) == NEWS


def test_a_store_is_read_right(unpacked: Path) -> None:
    with closing(RocksStore(unpacked / "store")) as store:
        assert_is_as_said(store)
        assert check_store(store, Findings()).problems == []


def test_a_backup_that_is_put_back_is_read_right(unpacked: Path) -> None:
    restore(str(unpacked / "backup"), str(unpacked / "new"), None)

    with closing(RocksStore(unpacked / "new")) as store:
        assert_is_as_said(store)


@pytest.mark.parametrize(("name", "form"), [("export.jsonl", JSON), ("export.msgpack", MESSAGEPACK)])
def test_an_export_is_read_right(name: str, form: ExportFormat) -> None:
    with (FORMAT_7 / name).open("rb") as file, closing(MemoryStore(Disk())) as store:
        parts = values(file, 1 << 20) if form is MESSAGEPACK else lines(file, 1 << 20)
        list(import_lines(store, parts, "refuse", boot=7.0, environment=Calendar(), form=form))

        assert_is_as_said(store)


def test_settings_that_have_been_renamed_are_not_renamed_again(unpacked: Path) -> None:
    with closing(RocksStore(unpacked / "store")) as store:
        before = store.scan(layout.PROJECTS, b"", layout.LAST_KEY, 100)

        rename_settings(store, store.begin())

        assert store.scan(layout.PROJECTS, b"", layout.LAST_KEY, 100) == before
