"""A copy is whole or absent, and has all that was written; a restored store uses no number twice."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from taskqueue.errors import FormatError, StoreError
from taskqueue.store.contract import Batch
from taskqueue.store.files.file_snapshot import FileSnapshot
from taskqueue.store.ledger import Ledger
from taskqueue.store.records.epochs import EPOCH_BITS, SKIPPED_EPOCHS
from taskqueue.store.records.format import EPOCH_KEY, FORMAT_KEY, META
from taskqueue.store.rocksdb.rocks_snapshot import ReadOnlyStore
from taskqueue.store.rocksdb.rocks_store import RocksStore
from taskqueue.store.tools.backup import back_up, restore
from tests.unit.store.conftest import Crawl


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Record the calls of fsync and rename, each with the name of the file, or its new name."""
    made: list[tuple[str, str]] = []
    fsync, rename = os.fsync, os.rename

    def fsync_and_note(file: int) -> None:
        fsync(file)
        made.append(("fsync", os.path.basename(os.readlink(f"/proc/self/fd/{file}"))))

    def rename_and_note(source: str, target: str) -> None:
        rename(source, target)
        made.append(("rename", os.path.basename(target)))

    monkeypatch.setattr(os, "fsync", fsync_and_note)
    monkeypatch.setattr(os, "rename", rename_and_note)
    return made


def epoch_of(path: str) -> int:
    with closing(ReadOnlyStore(path)) as reader:
        return reader.epoch


def value_in(path: str, key: bytes) -> bytes | None:
    with closing(ReadOnlyStore(path)) as reader:
        return reader.get("meta", [key])[0]


def start(path: str) -> int:
    """Begin and close as a daemon does; return the epoch."""
    with closing(RocksStore(path)) as store:
        return store.begin()


# ------------------------------------------------------------------------------------------------ looking


def test_a_store_is_looked_at_as_it_was_while_it_is_written_flushed_and_compacted(tmp_path: Path) -> None:
    with closing(RocksStore(tmp_path / "store")) as store:
        epoch = store.begin()
        for n in range(20):
            store.write(epoch, Batch(puts={"ids": [(b"n", b"%d" % n)], "specs": [(b"n", b"%d" % n)]}))
            with closing(ReadOnlyStore(str(tmp_path / "store"))) as reader:
                store.write(epoch, Batch(puts={"ids": [(b"n", b"later")], "specs": [(b"n", b"later")]}))
                store.compact()
                assert reader.get("ids", [b"n"]) == reader.get("specs", [b"n"]) == [b"%d" % n]


def test_an_image_can_be_copied_after_its_files_are_gone(tmp_path: Path) -> None:
    with closing(RocksStore(tmp_path / "store")) as store:
        epoch = store.begin()
        store.write(epoch, Batch(puts={"ids": [(b"n", b"1")]}))
        store.compact()
        with closing(FileSnapshot(str(tmp_path / "store"))) as snapshot:
            store.write(epoch, Batch(puts={"ids": [(b"n", b"1"), (b"m", b"2")], "specs": [(b"m", b"2")]}))
            store.compact()
            assert any(not (tmp_path / "store" / name).exists() for name in snapshot.tables)
            (tmp_path / "copy").mkdir()
            snapshot.copy_to(str(tmp_path / "copy"))

    with closing(ReadOnlyStore(str(tmp_path / "copy"))) as reader:
        assert reader.get("ids", [b"n"]) == [b"1"]
        assert reader.get("ids", [b"m"]) == reader.get("specs", [b"m"])
        assert reader.get("ids", [b"m"]) == reader.get("specs", [b"m"])


def test_files_that_change_while_they_are_being_held_are_held_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names_in, changes = os.listdir, [b"2", b"3"]
    with closing(RocksStore(tmp_path / "store")) as store:
        epoch = store.begin()
        store.write(epoch, Batch(puts={"ids": [(b"n", b"1")]}))

        def names_and_then_change(path: str) -> Iterator[str]:
            yield from names_in(path)
            if changes:
                store.write(epoch, Batch(puts={"ids": [(b"n", changes.pop(0))]}))
                store.compact()

        monkeypatch.setattr(os, "listdir", names_and_then_change)
        with closing(ReadOnlyStore(str(tmp_path / "store"))) as reader:
            assert reader.get("ids", [b"n"]) == [b"3"]


def test_looking_leaves_nothing_and_changes_nothing(stored: Crawl) -> None:
    before = {name: os.stat(f"{stored.path}/{name}").st_mtime_ns for name in os.listdir(stored.path)}

    stored.check()

    assert {name: os.stat(f"{stored.path}/{name}").st_mtime_ns for name in os.listdir(stored.path)} == before


def test_a_folder_without_a_store_is_said_to_have_none(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store here"):
        ReadOnlyStore(str(tmp_path))
    with pytest.raises(StoreError, match="there is no store here"):
        back_up(str(tmp_path / "nowhere"), str(tmp_path / "copy"))

    assert os.listdir(tmp_path) == []


def test_another_format_is_not_looked_at(stored: Crawl) -> None:
    stored.put(META, FORMAT_KEY, b"1")

    with pytest.raises(FormatError, match="has format 1, not"):
        ReadOnlyStore(stored.path)


# ------------------------------------------------------------------------------------------------ copying


def test_a_copy_has_all_that_was_written_and_is_a_store(stored: Crawl, tmp_path: Path) -> None:
    with closing(RocksStore(stored.path)) as store:
        store.write(store.begin(), Batch(puts={META: [(b"last", b"word")]}))
        back_up(stored.path, str(tmp_path / "copy"))

    assert value_in(str(tmp_path / "copy"), b"last") == b"word"
    assert start(str(tmp_path / "copy")) == epoch_of(stored.path) + 1


def test_a_copy_stays_as_it_is_when_its_store_goes_on(stored: Crawl, tmp_path: Path) -> None:
    back_up(stored.path, str(tmp_path / "copy"))

    with closing(RocksStore(stored.path)) as store:
        store.write(store.begin(), Batch(drops=[("ids", b"", b"\xff")]))
        store.compact()

    with closing(ReadOnlyStore(str(tmp_path / "copy"))) as reader:
        assert reader.scan("ids", b"", b"\xff", 1)


def test_a_copy_goes_into_an_empty_folder_but_not_into_one_with_something_in_it(stored: Crawl, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").touch()

    back_up(stored.path, str(tmp_path / "empty"))

    with pytest.raises(StoreError, match="not empty"):
        back_up(stored.path, str(tmp_path / "full"))
    with pytest.raises(StoreError, match="there is a store here already"):
        back_up(stored.path, str(tmp_path / "empty"))
    assert os.listdir(tmp_path / "full") == ["letter"]


def test_a_copy_that_fails_leaves_nothing(stored: Crawl, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(FileExistsError):
        back_up(stored.path, str(tmp_path / "file" / "copy"))
    (tmp_path / "file").unlink()

    assert sorted(os.listdir(tmp_path)) == ["store"]


# ------------------------------------------------------------------------------------------------ restoring


def test_a_copy_is_on_the_disk_before_it_has_its_name_and_its_name_after_that(
    stored: Crawl, tmp_path: Path, calls: list[tuple[str, str]]
) -> None:
    back_up(stored.path, str(tmp_path / "copy"))

    named = calls.index(("rename", "copy"))
    synced = [name for call, name in calls[:named] if call == "fsync"]
    copied = [file.name for file in (tmp_path / "copy").iterdir() if file.suffix != ".sst"]  # tables are links
    assert set(copied) <= set(synced)
    assert synced[-1].startswith("copy.partial-")
    assert ("fsync", tmp_path.name) in calls[named:]


def test_a_restored_store_is_on_the_disk_before_it_has_its_place_and_its_name_after_that(
    stored: Crawl, tmp_path: Path, calls: list[tuple[str, str]]
) -> None:
    back_up(stored.path, str(tmp_path / "copy"))
    calls.clear()

    restore(str(tmp_path / "copy"), stored.path, str(tmp_path / "aside"))

    named = calls.index(("rename", "store"))
    assert any(call == "fsync" and name.startswith("store.partial-") for call, name in calls[:named])
    assert ("fsync", tmp_path.name) in calls[named:]


def test_what_was_copied_is_put_back(stored: Crawl, tmp_path: Path) -> None:
    back_up(stored.path, str(tmp_path / "copy"))

    restore(str(tmp_path / "copy"), str(tmp_path / "new"), None)

    with closing(ReadOnlyStore(str(tmp_path / "new"))) as new, closing(ReadOnlyStore(stored.path)) as old:
        assert new.scan("ids", b"", b"\xff", 100) == old.scan("ids", b"", b"\xff", 100)
        assert new.scan("specs", b"", b"\xff", 100) == old.scan("specs", b"", b"\xff", 100)
    assert sorted(os.listdir(tmp_path)) == ["copy", "new", "store"]


def test_a_restored_store_begins_above_every_epoch_that_was_used(stored: Crawl, tmp_path: Path) -> None:
    back_up(stored.path, str(tmp_path / "copy"))
    stored.put(META, EPOCH_KEY, b"%d" % (2 * SKIPPED_EPOCHS))
    used = [start(stored.path) for _ in range(5)]

    restore(str(tmp_path / "copy"), stored.path, str(tmp_path / "aside"))

    assert start(stored.path) > max(used)
    assert epoch_of(str(tmp_path / "aside")) == max(used)


def test_a_restored_store_begins_above_those_that_a_lost_store_may_have_used(stored: Crawl, tmp_path: Path) -> None:
    back_up(stored.path, str(tmp_path / "copy"))
    started_last = epoch_of(stored.path) + 1024

    restore(str(tmp_path / "copy"), str(tmp_path / "new"), None)

    assert start(str(tmp_path / "new")) > started_last


def test_a_store_is_restored_over_one_that_is_damaged(stored: Crawl, tmp_path: Path) -> None:
    back_up(stored.path, str(tmp_path / "copy"))
    (Path(stored.path) / "CURRENT").write_text("MANIFEST-999999\n")

    restore(str(tmp_path / "copy"), stored.path, str(tmp_path / "aside"))

    assert stored.check().found == 0


def test_a_restored_store_does_not_believe_its_clocks_and_buckets(stored: Crawl, tmp_path: Path) -> None:
    with closing(RocksStore(stored.path)) as store:
        ledger = Ledger(store)
        ledger.begin("boot-1")
        ledger.stop()
    back_up(stored.path, str(tmp_path / "copy"))

    restore(str(tmp_path / "copy"), str(tmp_path / "new"), None)

    with closing(RocksStore(tmp_path / "new")) as store:
        loaded = Ledger(store).begin("boot-1")
    assert not loaded.same_boot
    assert not loaded.clean


def test_a_copy_has_the_secret_of_the_store(stored: Crawl, tmp_path: Path) -> None:
    with closing(RocksStore(stored.path)) as store:
        secret = Ledger(store).begin("boot-1").secret
    back_up(stored.path, str(tmp_path / "copy"))

    restore(str(tmp_path / "copy"), str(tmp_path / "new"), None)

    with closing(RocksStore(tmp_path / "new")) as store:
        assert Ledger(store).begin("boot-1").secret == secret


def test_a_store_is_not_written_over(stored: Crawl, tmp_path: Path) -> None:
    back_up(stored.path, str(tmp_path / "copy"))

    with pytest.raises(StoreError, match="there is a store here already"):
        restore(str(tmp_path / "copy"), stored.path, None)


def test_what_can_not_be_opened_is_not_restored_and_nothing_is_moved(stored: Crawl, tmp_path: Path) -> None:
    back_up(stored.path, str(tmp_path / "copy"))
    with closing(RocksStore(tmp_path / "copy")) as store:
        store.write(store.begin(), Batch(puts={META: [(FORMAT_KEY, b"99")]}))

    with pytest.raises(FormatError, match="newer"):
        restore(str(tmp_path / "copy"), stored.path, str(tmp_path / "aside"))

    assert stored.check().found == 0
    assert sorted(os.listdir(tmp_path)) == ["copy", "store"]


def test_a_store_whose_place_can_not_be_taken_gets_it_back(
    stored: Crawl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    back_up(stored.path, str(tmp_path / "copy"))
    rename = os.rename

    def rename_but_no_copy(source: str, target: str) -> None:
        if ".partial-" in source:
            raise OSError(errno.EIO, os.strerror(errno.EIO), source)
        rename(source, target)

    monkeypatch.setattr(os, "rename", rename_but_no_copy)
    with pytest.raises(OSError, match="Input/output error"):
        restore(str(tmp_path / "copy"), stored.path, str(tmp_path / "aside"))

    assert stored.check().found == 0
    assert sorted(os.listdir(tmp_path)) == ["copy", "store"]


def test_a_store_without_epochs_left_to_skip_is_not_restored(stored: Crawl, tmp_path: Path) -> None:
    stored.put(META, EPOCH_KEY, b"%d" % ((1 << EPOCH_BITS) - SKIPPED_EPOCHS))
    back_up(stored.path, str(tmp_path / "copy"))

    with pytest.raises(StoreError, match="used up"):
        restore(str(tmp_path / "copy"), str(tmp_path / "new"), None)
