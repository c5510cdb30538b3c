"""Snapshots of a store's files, as RocksDB sees them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from taskqueue.store.files.file_snapshot import FileSnapshot
from tests.unit.store.killed import make_killed


def test_rocksdb_gets_the_newest_log_without_what_a_power_cut_left_behind_its_last_record(tmp_path: Path) -> None:
    store, seen = tmp_path / "store", tmp_path / "seen"
    make_killed(store, synced=3, unsynced=1)
    newest = max(store.glob("*.log"))
    whole = newest.read_bytes()
    newest.write_bytes(whole + bytes(range(1, 256)) * 400)
    seen.mkdir()

    with closing(FileSnapshot(str(store))) as snapshot:
        snapshot.link_to(str(seen))
        assert (seen / newest.name).read_bytes() == whole


def test_a_log_that_ends_whole_is_not_copied(tmp_path: Path) -> None:
    store, seen = tmp_path / "store", tmp_path / "seen"
    make_killed(store, synced=3, unsynced=1)
    seen.mkdir()

    with closing(FileSnapshot(str(store))) as snapshot:
        snapshot.link_to(str(seen))
        assert all(log.is_symlink() for log in seen.glob("*.log"))
