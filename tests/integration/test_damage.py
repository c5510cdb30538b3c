"""A real daemon on a store whose files were damaged while it was down: it says so and does not start, until told to."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from taskqueue.cli.main import main

if TYPE_CHECKING:
    from tests.integration.conftest import Daemon, DaemonFactory, PeerFactory

DAMAGED = 5
"""Exit code."""

BATCH = 100
BATCHES = 30

COMMAND = "import sys; from taskqueue.cli.main import main; sys.exit(main(['scheduler', '-c', sys.argv[1]{}]))"
ACCEPTING = COMMAND.format(", '--accept-damage'")


def filled(daemon: DaemonFactory, peer: PeerFactory, durability: str = "commit") -> Daemon:
    """A daemon that was killed when it had acknowledged some thousand tasks."""
    it = daemon(entry=COMMAND.format(""), durability=durability)
    client = peer(it)
    for n in range(BATCHES):
        client.push("news", *(f"t{n}-{k}" for k in range(BATCH)))
    it.kill()
    return it


def tasks(it: Daemon, peer: PeerFactory) -> int:
    return int(peer(it).ask("project-show", project="news")["project"]["counts"]["ready"])


def log_of(it: Daemon) -> Path:
    """The only log of a small store."""
    (log,) = it.store_path.glob("*.log")
    return log


def flip_middle(log: Path) -> None:
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)


def flip_start(log: Path) -> None:
    content = log.read_bytes()
    log.write_bytes(b"\xff" + content[1:])


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
    assert main(["store", "check", "--store", str(it.store_path)]) == 0
    assert it.stop() == 0

    it.entry = COMMAND.format("")
    it.start()
    assert tasks(it, peer) >= 1


@pytest.mark.parametrize("durability", ["commit", "interval", "none"])
@pytest.mark.parametrize("tail", [os.urandom(50_000), bytes(50_000)])
def test_what_a_crash_leaves_behind_the_end_of_a_log_is_not_even_mentioned(
    daemon: DaemonFactory, peer: PeerFactory, durability: str, tail: bytes
) -> None:
    it = filled(daemon, peer, durability)
    with log_of(it).open("ab") as log:
        log.write(tail)

    said = it.log()
    it.start()

    assert tasks(it, peer) == BATCH * BATCHES
    assert it.log() == said


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
