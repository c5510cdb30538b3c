"""Opening a store in folders with other content, and the number of its tables."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from rocksdict import Options, Rdict

from taskqueue.errors import StoreError
from taskqueue.store.contract import Batch
from taskqueue.store.files.synced_mark import NAME
from taskqueue.store.rocksdb.rocks_store import RocksStore
from taskqueue.store.rocksdb.tuning import GROWING


def make_database(path: Path, entries: dict[bytes, bytes]) -> None:
    """Make a database with RocksDB's own family only."""
    with closing(Rdict(str(path), Options(raw_mode=True))) as database:
        for key, value in entries.items():
            database[key] = value


def test_a_store_whose_making_was_broken_off_is_made(tmp_path: Path) -> None:
    make_database(tmp_path, {})

    with closing(RocksStore(tmp_path)) as store:
        assert store.begin() == 1


def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    make_database(tmp_path, {b"theirs": b"1"})

    with pytest.raises(StoreError, match="another program's database"):
        RocksStore(tmp_path)

    assert Rdict.list_cf(str(tmp_path)) == ["default"]


def test_a_store_that_has_lost_its_families_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    make_database(tmp_path, {})
    (tmp_path / NAME).touch()

    with pytest.raises(StoreError, match="has lost its family meta"):
        RocksStore(tmp_path)


def test_families_that_grow_at_their_ends_have_few_tables(tmp_path: Path) -> None:
    flushes = 40
    for number in range(flushes):
        with closing(RocksStore(tmp_path)) as store:  # closing it flushes what it has
            store.write(store.begin(), Batch(puts={family: entries_from(100 * number) for family in GROWING}))

    with closing(RocksStore(tmp_path)) as store:
        while store.is_busy():
            pass
        tables = sum(len(sizes) for sizes in store.levels().values())
        assert all(len(store.scan(family, b"", b"\xff", 10_000)) == 100 * flushes for family in GROWING)

    assert tables < flushes * len(GROWING) / 2


def entries_from(first: int) -> list[tuple[bytes, bytes]]:
    """Make a hundred entries with ascending keys."""
    return [(number.to_bytes(8, "big"), b"value") for number in range(first, first + 100)]
