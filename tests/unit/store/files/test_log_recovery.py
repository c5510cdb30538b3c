"""Real stores with damaged logs: refused, or opened without the lost changes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from rocksdict import Rdict

from taskqueue.errors import Damaged, StoreError
from taskqueue.store.files.folder import LOCK
from taskqueue.store.files.log_recovery import recover_logs
from taskqueue.store.files.synced_mark import NAME
from taskqueue.store.records.epochs import SKIPPED_EPOCHS
from taskqueue.store.records.layout import LAST_KEY
from taskqueue.store.rocksdb import tuning
from taskqueue.store.rocksdb.rocks_store import RocksStore
from tests.unit.store.killed import make_killed

ENTRIES = 105
"""Entries of a store; forty are more than RocksDB keeps in one log."""

ENTRY_BYTES = 100_000

HOLD = (
    "import fcntl, sys; lock = open(sys.argv[1], 'r+'); fcntl.lockf(lock, fcntl.LOCK_EX); "
    "print(flush=True); sys.stdin.read()"
)
"""Program of a process that holds the lock of a store."""

UNSYNCED = 5


def key_of(n: int) -> bytes:
    return b"%04d" % n


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a store with several logs, and no tables, whose last writes were not synced."""
    path = tmp_path_factory.mktemp("made") / "store"
    make_killed(path, synced=ENTRIES, unsynced=UNSYNCED)
    assert len(logs(path)) >= 3
    return path


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "store")
    return tmp_path / "store"


def logs(path: Path) -> list[Path]:
    return sorted(path.glob("*.log"))


def entries(store: RocksStore) -> int:
    """Count the entries, which must be the first ones."""
    found = [key for key, _ in store.scan("ids", b"", LAST_KEY, 1000)]
    assert found == [key_of(n) for n in range(len(found))]
    return len(found)


def flip(log: Path, at: int) -> None:
    with log.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x40]))


def cut(log: Path) -> None:
    os.truncate(log, log.stat().st_size // 2)


DAMAGE: dict[str, Callable[[list[Path]], object]] = {
    "a flipped bit at the start of the first": lambda logs: flip(logs[0], 3),
    "a flipped bit in the middle of the first": lambda logs: flip(logs[0], 1_000_000),
    "a flipped bit in the middle of another": lambda logs: flip(logs[1], 1_000_000),
    "a flipped bit in the middle of the last": lambda logs: flip(logs[-1], 1_000_000),
    "zeros in the middle": lambda logs: os.pwrite(os.open(logs[1], os.O_RDWR), bytes(200_000), 1_000_000),
    "the first one missing": lambda logs: logs[0].unlink(),
    "another one missing": lambda logs: logs[1].unlink(),
    "the last one missing": lambda logs: logs[-1].unlink(),
    "all missing": lambda logs: list(map(Path.unlink, logs)),
    "the first one emptied": lambda logs: os.truncate(logs[0], 0),
    "the last one emptied": lambda logs: os.truncate(logs[-1], 0),
    "the first one cut": lambda logs: cut(logs[0]),
    "the last one cut": lambda logs: cut(logs[-1]),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_refused_until_it_is_accepted(path: Path, damage: str) -> None:
    DAMAGE[damage](logs(path))
    before = {file.name: file.read_bytes() for file in path.iterdir()}

    for _ in range(2):
        with pytest.raises(Damaged, match=r"\.log, at byte .*\nlost: at most .*\n.*--accept-damage"):
            RocksStore(path)
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before

    with closing(RocksStore(path, accept_damage=True)) as store:
        assert store.damage is not None
        assert store.damage.is_unexplained
        left = entries(store)
        assert left < ENTRIES
        assert store.begin() > SKIPPED_EPOCHS
        kept = {file.name for file in (path / "damaged-1").iterdir()}
        assert {name for name in before if name.endswith(".log")} >= kept
    with closing(RocksStore(path)) as store:
        assert entries(store) == left


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_accepted_and_cut_off_has_to_be_accepted_again(
    path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise StoreError("cut off")

    DAMAGE[damage](logs(path))
    with monkeypatch.context() as patched:
        patched.setattr("taskqueue.store.rocksdb.rocks_store.skip_epochs", fail)
        with pytest.raises(StoreError, match="cut off"):
            RocksStore(path, accept_damage=True)

    with pytest.raises(Damaged):
        RocksStore(path)
    with closing(RocksStore(path, accept_damage=True)) as store:
        assert store.begin() > SKIPPED_EPOCHS


@pytest.mark.parametrize(
    "tail", [Random(7).randbytes(70_000), bytes(70_000), b"\1"], ids=["of chance", "of zeros", "of one byte"]
)
def test_garbage_behind_what_was_written_is_no_damage(path: Path, tail: bytes) -> None:
    with logs(path)[-1].open("ab") as file:
        file.write(tail)

    with closing(RocksStore(path)) as store:
        assert store.damage is None
        assert entries(store) == ENTRIES + UNSYNCED


def test_garbage_is_cut_off_before_rocksdb_could_read_it_for_ever(path: Path) -> None:
    whole = logs(path)[-1].stat().st_size
    with logs(path)[-1].open("ab") as file:
        file.write(os.urandom(70_000))

    assert recover_logs(str(path), "", has_failed=False, accept=False) is None

    assert logs(path)[-1].stat().st_size == whole


def test_the_log_of_a_store_that_a_daemon_has_open_is_not_cut(path: Path) -> None:
    with logs(path)[-1].open("ab") as file:
        file.write(os.urandom(70_000))
    before = logs(path)[-1].stat().st_size
    (path / LOCK).touch()
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path / LOCK)], stdin=-1, stdout=-1) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()

        assert recover_logs(str(path), "", has_failed=False, accept=False) is None

        holder.communicate()
    assert logs(path)[-1].stat().st_size == before


def test_what_was_not_synced_may_be_torn_off(path: Path) -> None:
    log = logs(path)[-1]
    os.truncate(log, log.stat().st_size - ENTRY_BYTES * 2)
    with log.open("ab") as file:
        file.write(os.urandom(100_000))

    with closing(RocksStore(path)) as store:
        assert store.damage is None
        assert ENTRIES <= entries(store) < ENTRIES + UNSYNCED


def torn_in_the_middle_of_what_was_not_synced(path: Path) -> None:
    log = logs(path)[-1]
    flip(log, log.stat().st_size - ENTRY_BYTES * 3)


def test_a_gap_in_what_was_not_synced_is_damage_if_nothing_explains_it(path: Path) -> None:
    torn_in_the_middle_of_what_was_not_synced(path)

    with pytest.raises(Damaged):
        RocksStore(path, boot_id="boot")


@pytest.mark.parametrize(("boot_id", "has_failed"), [("next", False), ("boot", True)])
def test_a_power_cut_or_a_failed_write_explains_a_gap_in_what_was_not_synced(
    path: Path, boot_id: str, has_failed: bool
) -> None:
    torn_in_the_middle_of_what_was_not_synced(path)

    with closing(RocksStore(path, boot_id=boot_id, has_failed=has_failed)) as store:
        assert store.damage is not None
        assert not store.damage.is_unexplained
        assert ENTRIES <= entries(store) < ENTRIES + UNSYNCED
        assert store.begin() == 2


@pytest.mark.parametrize(("boot_id", "has_failed"), [("next", False), ("boot", True)])
def test_nothing_explains_the_loss_of_what_was_safe(path: Path, boot_id: str, has_failed: bool) -> None:
    flip(logs(path)[1], 1_000_000)

    with pytest.raises(Damaged):
        RocksStore(path, boot_id=boot_id, has_failed=has_failed)


def test_a_gap_is_damage_without_a_mark_too(path: Path) -> None:
    (path / NAME).unlink()
    logs(path)[1].unlink()

    with pytest.raises(Damaged):
        RocksStore(path)


def test_damage_that_no_mark_told_of_has_to_be_accepted_again_if_it_was_cut_off(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise StoreError("cut off")

    (path / NAME).unlink()
    logs(path)[1].unlink()
    with monkeypatch.context() as patched:
        patched.setattr("taskqueue.store.rocksdb.rocks_store.skip_epochs", fail)
        with pytest.raises(StoreError, match="cut off"):
            RocksStore(path, accept_damage=True)

    with pytest.raises(Damaged):
        RocksStore(path)


def test_tables_that_are_ahead_of_the_logs_can_only_be_repaired(tmp_path: Path) -> None:
    path = tmp_path / "store"
    make_killed(path, synced=ENTRIES, flush="points")
    flip(logs(path)[0], 1_000_000)

    for accept in (False, True):
        with pytest.raises(Damaged, match="taskqueue store repair"):
            RocksStore(path, accept_damage=accept)


def test_logs_that_were_flushed_and_deleted_are_not_missed(tmp_path: Path) -> None:
    path = tmp_path / "store"
    for n in range(4):
        make_killed(path, synced=ENTRIES // 2, flush="ids" if n % 2 else "points")
        with closing(RocksStore(path)) as store:
            assert store.damage is None
            assert entries(store) == ENTRIES // 2


def test_a_store_whose_making_was_cut_off_is_made_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "store"
    Rdict(str(path), tuning.database()).close()

    with closing(RocksStore(path)) as store:
        assert store.damage is None
        assert store.begin() == 1


def test_a_manifest_that_was_cut_is_not_taken_for_that_of_a_new_store(path: Path) -> None:
    (manifest,) = path.glob("MANIFEST-*")
    content = manifest.read_bytes()
    for mark in (True, False):
        if not mark:
            (path / NAME).unlink()
        for name in (b"meta", b"ids"):
            os.truncate(manifest, content.index(b"\xc9\x01" + bytes([len(name)]) + name))
            if mark or name == b"meta":
                with pytest.raises(Damaged, match="taskqueue store repair"):
                    RocksStore(path)
            manifest.write_bytes(content)
