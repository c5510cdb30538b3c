"""The key that commands show to a daemon if none is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskqueue.cli.input.daemon import key_for


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The key file that a daemon has made on this machine."""
    monkeypatch.setenv("TASKQUEUE_DAEMON_KEYS", str(tmp_path / "access.json"))
    made = tmp_path / "local.key"
    made.touch()
    return made


# 0.0.0.0 stands for the other addresses of this machine, which a test can't know: to bind it works, too.
@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "[::1]", "0.0.0.0"])
def test_a_daemon_at_an_address_of_this_machine_is_shown_its_local_key(host: str, local: Path) -> None:
    assert key_for(f"tcp://{host}:7400", None) == local


@pytest.mark.parametrize("url", ["tcp://192.0.2.1:7400", "tcp://[2001:db8::1]:7400", "tcp://host:7400", "ipc:///a"])
def test_a_daemon_elsewhere_is_not_shown_the_local_key_of_this_machine(url: str, local: Path) -> None:
    assert key_for(url, None) is None


def test_a_key_that_is_named_wins(local: Path) -> None:
    assert key_for("tcp://127.0.0.1:7400", Path("web1.key")) == Path("web1.key")
