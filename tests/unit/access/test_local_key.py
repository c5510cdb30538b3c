"""The key file that a client on the daemon's machine finds if it names none."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskqueue.access.key_file import find_local_key, make_key, read_key, write_new_key
from taskqueue.client.arguments import client_key

HERE = "tcp://127.0.0.1:7400"


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The key file that a daemon has made on this machine."""
    monkeypatch.setenv("TASKQUEUE_DAEMON_KEYS", str(tmp_path / "access.json"))
    monkeypatch.delenv("TASKQUEUE_KEY", raising=False)
    made = tmp_path / "local.key"
    write_new_key(made, make_key("local", "0" * 64))
    return made


# 0.0.0.0 stands for the other addresses of this machine, which a test can't know: to bind it works, too.
@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "[::1]", "0.0.0.0"])
def test_a_daemon_at_an_address_of_this_machine_is_shown_its_local_key(host: str, local: Path) -> None:
    assert find_local_key(f"tcp://{host}:7400") == local


@pytest.mark.parametrize("url", ["tcp://192.0.2.1:7400", "tcp://[2001:db8::1]:7400", "tcp://host:7400", "ipc:///a"])
def test_a_daemon_elsewhere_is_not_shown_the_local_key_of_this_machine(url: str, local: Path) -> None:
    assert find_local_key(url) is None


def test_a_local_key_that_is_missing_is_not_shown(local: Path) -> None:
    local.unlink()

    assert find_local_key(HERE) is None
    assert client_key(None, HERE) is None


def test_a_client_that_names_no_key_shows_the_local_one(local: Path) -> None:
    assert client_key(None, HERE) == read_key(local)
    assert client_key(None, "tcp://192.0.2.1:7400") is None


def test_a_key_that_is_named_wins_over_the_local_one(
    local: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = tmp_path / "web1.key"
    write_new_key(named, make_key("web1", "1" * 64))

    assert client_key(named, HERE) == read_key(named)
    monkeypatch.setenv("TASKQUEUE_KEY", str(named))
    assert client_key(None, HERE) == read_key(named)
    assert client_key("", HERE) is None
