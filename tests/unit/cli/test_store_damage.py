"""``taskqueue store check`` on damaged files: a line each, with what to do, and no traceback."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from taskqueue.cli.main import main
from taskqueue.errors import StoreError
from taskqueue.store.contract import Batch
from taskqueue.store.rocksdb.rocks_store import RocksStore

TASKS = 3000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Store whose entries are in tables; what they say does not matter here."""
    path = tmp_path / "store"
    with closing(RocksStore(path)) as store:
        epoch = store.begin()
        for family in ("ids", "specs"):
            store.write(epoch, Batch(puts={family: [(b"%08d" % n, os.urandom(40)) for n in range(TASKS)]}))
        store.compact()
    return path


def flip(file: Path, at: int) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)


def table(path: Path) -> Path:
    return max(path.glob("*.sst"), key=lambda file: file.stat().st_size)


def manifest(path: Path) -> Path:
    return next(path.glob("MANIFEST-*"))


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a flipped byte in a table": (lambda path: flip(table(path), 50_000), "a block whose checksum does not match"),
    "a flipped byte at the end of a table": (lambda path: flip(table(path), -10), ".sst: "),
    "a table that is missing": (lambda path: table(path).unlink(), "it is missing, a table of "),
    "a table that was cut": (
        lambda path: os.truncate(table(path), 50_000),
        ".sst, at byte 50,000: it ends here, but should",
    ),
    "a flipped byte in the MANIFEST": (
        lambda path: flip(manifest(path), 100),
        "a record whose checksum does not match",
    ),
    "a MANIFEST that was cut": (lambda path: os.truncate(manifest(path), 300), ""),
    "a MANIFEST that is missing": (
        lambda path: manifest(path).unlink(),
        "is missing, although other files of a store exist",
    ),
    "no CURRENT": (lambda path: (path / "CURRENT").unlink(), "CURRENT is missing, although"),
    "a log that is missing": (lambda path: next(path.glob("*.log")).unlink(), ".log, at byte 0: it is missing"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_each_kind_of_damage_is_a_line_with_what_to_do(
    path: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    do, said = DAMAGE[damage]
    do(path)

    status = main(["store", "check", str(path)])

    out, err = capsys.readouterr()
    assert status == 1
    assert said in out.splitlines()[0]
    assert "store repair" in out.splitlines()[0] or "--accept-damage" in out.splitlines()[0]
    assert err == f"{path}: the store is damaged; whether its entries agree was not checked\n"


@pytest.mark.parametrize("damage", [name for name in DAMAGE if "in a table" not in name])
def test_no_daemon_starts_on_it_and_nothing_is_changed(path: Path, damage: str) -> None:
    DAMAGE[damage][0](path)
    before = {file.name for file in path.iterdir() if file.suffix in (".sst", ".log")}

    with pytest.raises(StoreError):
        RocksStore(path)

    assert {file.name for file in path.iterdir() if file.suffix in (".sst", ".log")} >= before
