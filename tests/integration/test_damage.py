"""A daemon whose store's files were damaged while it was down says so, and starts only when ordered to."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from shutil import copytree
from typing import TYPE_CHECKING, Final

import pytest

from taskqueue.cli.main import main
from taskqueue.store.rocksdb.rocks_store import RocksStore

if TYPE_CHECKING:
    from tests.integration.conftest import Daemon, DaemonFactory, PeerFactory

DAMAGED = 5
"""Exit code of a daemon that refuses a damaged store."""

BATCH = 100
BATCHES = 30
NOTE = {"note": "x" * 1500}
"""Body of a size that lets the tasks fill several logs."""

COMMAND = "import sys; from taskqueue.cli.main import main; sys.exit(main(['daemon', 'start', '-c', sys.argv[1]{}]))"
ACCEPTING = COMMAND.format(", '--accept-damage'")


FILLED: Final[dict[str, Path]] = {}
"""Folders of stores to copy, by durability. On each, a daemon of the fixture's entry acknowledged
``BATCH`` times ``BATCHES`` tasks, and was killed.
"""


def filled(daemon: DaemonFactory, peer: PeerFactory, durability: str = "commit") -> Daemon:
    """Make a daemon, not yet started, on a copy of the store with this durability in ``FILLED``."""
    if durability not in FILLED:
        first = daemon(durability=durability)
        client = peer(first)
        for n in range(BATCHES):
            client.push("news", *(f"t{n}-{k}" for k in range(BATCH)))
        first.kill()
        FILLED[durability] = first.store_path
    it = daemon(entry=COMMAND.format(""), durability=durability, start=False)
    copytree(FILLED[durability], it.store_path)
    return it


def tasks(it: Daemon, peer: PeerFactory) -> int:
    return int(peer(it).ask("project-show", project="news")["project"]["counts"]["ready"])


def log_of(it: Daemon) -> Path:
    """Return the only log file of a small store."""
    (log,) = it.store_path.glob("*.log")
    return log


def flip_middle(log: Path) -> None:
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)


def flip_start(log: Path) -> None:
    content = log.read_bytes()
    log.write_bytes(bytes([content[0] ^ 0xFF]) + content[1:])


def cut(log: Path) -> None:
    os.truncate(log, log.stat().st_size // 2)


@pytest.mark.parametrize("damage", [flip_middle, flip_start, cut, Path.unlink])
def test_a_damaged_log_is_told_and_the_daemon_goes_on_without_what_is_lost_only_when_told_to(
    daemon: DaemonFactory, peer: PeerFactory, damage: Callable[[Path], object], capsys: pytest.CaptureFixture[str]
) -> None:
    it = filled(daemon, peer)
    name = log_of(it).name
    damage(log_of(it))

    it.launch()
    assert it.ended() == DAMAGED
    assert f"taskqueue: {it.store_path}: the store is damaged\ntaskqueue: {name}, at byte " in it.log()
    assert "taskqueue: lost: at most " in it.log()
    assert "--accept-damage" in it.log()

    it.entry = ACCEPTING
    it.start()
    assert "damage-accepted lost: at most " in it.log()
    assert (it.store_path / "damaged-1").is_dir()
    client = peer(it)
    client.push("news", "another")
    assert client.ask("verify")["problems"] == []
    assert 1 <= tasks(it, peer) < BATCH * BATCHES
    assert int(it.started_with.split("epoch=")[1].split()[0]) > 1024
    assert main(["store", "check", str(it.store_path)]) == 0
    assert it.stop() == 0

    it.entry = COMMAND.format("")
    it.start()
    assert tasks(it, peer) >= 1


@pytest.mark.parametrize("durability", ["commit", "interval", "none"])
@pytest.mark.parametrize("tail", [Random(7).randbytes(50_000), bytes(50_000)], ids=["of chance", "of zeros"])
def test_what_a_crash_leaves_behind_the_end_of_a_log_is_not_even_mentioned(
    daemon: DaemonFactory, peer: PeerFactory, durability: str, tail: bytes
) -> None:
    it = filled(daemon, peer, durability)
    with log_of(it).open("ab") as log:
        log.write(tail)

    it.start()

    assert tasks(it, peer) == BATCH * BATCHES
    assert {line.split()[2] for line in it.log().splitlines()} <= {"INFO"}


@pytest.mark.parametrize("durability", ["commit", "interval", "none"])
def test_a_missing_log_is_told_in_every_durability(daemon: DaemonFactory, peer: PeerFactory, durability: str) -> None:
    it = filled(daemon, peer, durability)
    log_of(it).unlink()

    it.launch()

    assert it.ended() == DAMAGED


@pytest.mark.parametrize("durability", ["commit", "interval", "none"])
def test_after_a_clean_stop_damage_is_told_too(daemon: DaemonFactory, peer: PeerFactory, durability: str) -> None:
    it = filled(daemon, peer, durability)
    it.start()
    peer(it).push("news", "one more")
    assert it.stop() == 0
    log_of(it).unlink()

    it.launch()

    assert it.ended() == DAMAGED


def test_what_can_still_be_read_of_the_loss_is_named(daemon: DaemonFactory, peer: PeerFactory) -> None:
    it = filled(daemon, peer)
    client = peer(it.start())
    for n in range(5):
        client.push("news", *(f"t{n}-{k}" for k in range(BATCH)), force_update=True)
    client.push("news", "a-new-one")
    it.kill()
    flip_start(log_of(it))

    it.entry = ACCEPTING
    it.start()

    (line,) = (line for line in it.log().splitlines() if "damage-accepted project=news tasks=" in line)
    assert ": changes of these are lost: a-new-one t" in line


def test_a_table_that_can_not_be_read_at_a_start_is_damage(daemon: DaemonFactory, peer: PeerFactory) -> None:
    it = filled(daemon, peer)
    with closing(RocksStore(it.store_path)) as store:
        store.compact()
    for table in it.store_path.glob("*.sst"):
        content = bytearray(table.read_bytes())
        content[50] ^= 1
        table.write_bytes(content)

    it.launch()

    assert it.ended() == DAMAGED
    assert "taskqueue store repair" in it.log()


def run(*arguments: object) -> int:
    return main(["store", *map(str, arguments)])


def truth(it: Daemon) -> dict[str, bytes]:
    """Read every record of the store."""
    return {file.name: file.read_bytes() for file in it.store_path.iterdir() if file.is_file()}


def goes_on(daemon: DaemonFactory, peer: PeerFactory, path: Path) -> int:
    """Start a daemon on a store, dispatch its tasks, verify it; return the number of ready tasks."""
    it = daemon(path=str(path))
    ready = tasks(it, peer)
    fetcher = peer(it)
    fetcher.ask("hello", capacity=10)
    given = fetcher.receive()["tasks"]
    assert len(given) == 10
    done = [{key: task[key] for key in ("project", "taskid", "token")} | {"ok": True} for task in given]
    assert fetcher.ask("done", tasks=done)["outcomes"] == ["done"] * 10
    assert fetcher.ask("verify")["problems"] == []
    it.stop()
    assert run("check", path) == 0
    return ready


@pytest.mark.parametrize("damage", [flip_middle, flip_start, cut])
def test_more_is_saved_by_a_repair_than_by_accepting(
    daemon: DaemonFactory, peer: PeerFactory, tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    it = filled(daemon, peer)
    damage(log_of(it))
    before = truth(it)

    assert run("repair", it.store_path, tmp_path / "new") == 1

    assert truth(it) == before
    ready = goes_on(daemon, peer, tmp_path / "new")
    assert BATCH * (BATCHES // 2 - 1) <= ready < BATCH * BATCHES
    if damage is not cut:
        assert ready >= BATCH * (BATCHES - 3)


def test_what_runs_can_not_be_repaired(
    daemon: DaemonFactory, peer: PeerFactory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    it = daemon()
    peer(it).push("news", "a")

    assert run("repair", it.store_path, tmp_path / "new") == 1

    assert "a daemon has this store open; stop it first" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
    it.stop()
    assert run("repair", it.store_path, tmp_path / "new") == 0
    assert capsys.readouterr().out == f"{tmp_path / 'new'}: saved 1 task, 1 project; its next epoch is 1027\n"


@pytest.mark.parametrize("which", [0, 1, -1])
def test_tables_that_are_ahead_of_a_damaged_log_are_told_and_repaired(
    daemon: DaemonFactory, peer: PeerFactory, tmp_path: Path, which: int
) -> None:
    it = filled(daemon, peer)
    with closing(RocksStore(it.store_path)) as store:
        store.compact()
    it.start()
    client = peer(it)
    for n in range(60):
        more = [{"taskid": f"more{n}-{k}", "url": f"http://site/{n}", "body": NOTE} for k in range(BATCH)]
        assert client.ask("new-task", project="news", tasks=more)["outcomes"] == ["new"] * BATCH
    it.kill()
    logs = sorted(it.store_path.glob("*.log"))
    assert len(logs) >= 3
    flip_middle(logs[which])

    it.launch()
    assert it.ended() == DAMAGED
    assert run("check", it.store_path) == 1
    assert run("repair", it.store_path, tmp_path / "new") == 1

    assert goes_on(daemon, peer, tmp_path / "new") >= BATCH * (BATCHES + 50)
