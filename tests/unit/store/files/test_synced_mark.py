"""The mark of a real store: how far it was synced."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from taskqueue.errors import StoreError
from taskqueue.store.contract import Batch
from taskqueue.store.files.folder import Folder
from taskqueue.store.files.synced_mark import NAME, SyncedMark, read_mark
from taskqueue.store.rocksdb.rocks_store import RocksStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


def mark_of(path: Path) -> SyncedMark | None:
    with closing(Folder(str(path))) as folder:
        return read_mark(folder)


def seq_of(path: Path) -> int:
    mark = mark_of(path)
    assert mark is not None
    return mark.seq


def write(store: RocksStore, epoch: int, *keys: bytes) -> None:
    store.write(epoch, Batch(puts={"ids": [(key, b"") for key in keys]}))


def test_a_sync_moves_the_mark_to_all_that_was_written_and_a_write_does_not(path: Path) -> None:
    with closing(RocksStore(path)) as store:
        epoch = store.begin()
        before = seq_of(path)
        write(store, epoch, b"a", b"b")
        assert seq_of(path) == before

        store.sync()

        assert seq_of(path) == before + 2


def test_a_mark_says_when_and_where_it_was_made(path: Path) -> None:
    with closing(RocksStore(path, boot_id="this-boot")) as store:
        store.begin()

        mark = mark_of(path)

        assert mark is not None
        assert mark.boot_id == "this-boot"
        assert (path / mark.manifest).exists()
        assert (path / f"{mark.first_log:06d}.log").exists()


@pytest.mark.parametrize("content", [b"", b"tqsync 1", bytes(200)])
def test_an_empty_or_torn_mark_says_nothing(path: Path, content: bytes) -> None:
    RocksStore(path).close()
    (path / NAME).write_bytes(content)

    assert mark_of(path) is None
    RocksStore(path).close()
    assert mark_of(path) is not None


def test_a_flipped_bit_makes_a_mark_say_nothing(path: Path) -> None:
    RocksStore(path).close()
    content = (path / NAME).read_bytes()
    for at in range(len(content)):
        (path / NAME).write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
        assert mark_of(path) is None


def test_the_mark_of_another_store_says_nothing(path: Path, tmp_path: Path) -> None:
    RocksStore(path).close()
    RocksStore(tmp_path / "other").close()
    (path / NAME).write_bytes((tmp_path / "other" / NAME).read_bytes())

    assert mark_of(path) is None


def test_a_mark_that_leads_elsewhere_is_not_followed(path: Path, tmp_path: Path) -> None:
    RocksStore(path).close()
    (tmp_path / "victim").write_bytes(b"mine")
    (path / NAME).unlink()
    os.symlink(tmp_path / "victim", path / NAME)

    with pytest.raises(StoreError):
        RocksStore(path)
    assert (tmp_path / "victim").read_bytes() == b"mine"
