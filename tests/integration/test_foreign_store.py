"""Daemons that are started on the store folder of another daemon or program."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.conftest import Daemon, DaemonFactory, PeerFactory

SECRET = "ssh-ed25519 AAAA me@home\n"


@pytest.fixture
def stopped(daemon: DaemonFactory, peer: PeerFactory) -> Daemon:
    """Stopped daemon with a task in its store."""
    it = daemon()
    peer(it).push("news", "a")
    assert it.stop() == 0
    return it


def ended(it: Daemon) -> str:
    """Start a daemon that refuses its store; return its message."""
    it.log_file.write_text("")
    it.launch()
    assert it.ended() == 1
    return it.log()


@pytest.mark.parametrize("name", ["LOCK", "LOG", "rocksdict-config.json", "MANIFEST-000999", "000999.dbtmp"])
def test_a_daemon_writes_through_no_link_in_its_store(stopped: Daemon, tmp_path: Path, name: str) -> None:
    planted = tmp_path / "authorized_keys"
    planted.write_text(SECRET)
    (stopped.store_path / name).unlink(missing_ok=True)
    (stopped.store_path / name).symlink_to(planted)

    assert ended(stopped).startswith(f"taskqueue: {stopped.store_path}: {name} is a symbolic link, ")
    assert planted.read_text() == SECRET


def pipe(store: Path) -> None:
    os.mkfifo(store / "000999.sst")


def sparse(store: Path) -> None:
    os.truncate(store / "CURRENT", 1 << 40)


def elsewhere(store: Path) -> None:
    (store / "CURRENT").write_text("../authorized_keys\n")


@pytest.mark.parametrize(
    ("harm", "said"),
    [(pipe, "000999.sst is a pipe"), (sparse, "1,099,511,627,776 bytes"), (elsewhere, 'names "../authorized_keys"')],
)
def test_a_daemon_does_not_start_on_what_rocksdb_did_not_make(
    stopped: Daemon, harm: Callable[[Path], None], said: str
) -> None:
    harm(stopped.store_path)

    found = ended(stopped)

    assert said in found
    assert found.count("\n") == 1


def test_a_daemon_starts_again_when_the_link_is_gone(stopped: Daemon, peer: PeerFactory, tmp_path: Path) -> None:
    link = stopped.store_path / "README"
    link.symlink_to(tmp_path)
    assert "README is a symbolic link" in ended(stopped)
    link.unlink()

    stopped.start()

    assert peer(stopped).ask("project-show", project="news")["project"]["counts"]["ready"] == 1
