"""The file of tokens: its contents, and when it is rejected."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from taskqueue.errors import ConfigError
from taskqueue.web.access.tokens import PREFIX, Tokens, add_token, read_tokens, remove_token


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "made" / "tokens.json"


def test_a_token_is_in_no_file(path: Path) -> None:
    secret = add_token(path, "anna", "admin", None)

    assert secret.startswith(PREFIX)
    assert len(secret) >= 43
    assert secret.removeprefix(PREFIX) not in path.read_text()
    found = Tokens(path).of_secret(secret)
    assert found is not None
    assert (found.name, found.role, found.expires_at) == ("anna", "admin", None)


def test_only_the_owner_may_read_it(path: Path) -> None:
    before = os.umask(0)
    try:
        add_token(path, "anna", "admin", None)
    finally:
        os.umask(before)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o666])
def test_a_file_that_others_may_read_or_write_is_not_believed(path: Path, mode: int) -> None:
    add_token(path, "anna", "admin", None)
    path.chmod(mode)

    with pytest.raises(ConfigError, match=f"has mode {mode:04o}, so others .*: chmod 600 "):
        read_tokens(path)


@pytest.mark.parametrize(
    "written",
    [b"", b"\xff", b"{", b"[]", b"{}", b'{"salt": "", "tokens": []}', b'{"salt": 1}', b"[" * 100_000, b"0" * 1_100_000],
    ids=range(9),
)
def test_a_damaged_file_says_what_to_do(path: Path, written: bytes) -> None:
    add_token(path, "anna", "admin", None)
    path.write_bytes(written)

    with pytest.raises(ConfigError, match=r"tokens\.json"):
        read_tokens(path)


@pytest.mark.parametrize(
    ("field", "value"),
    [("role", "root"), ("role", "anyone"), ("name", "a b"), ("name", ""), ("digest", "00"), ("x", 1)],
)
def test_a_token_that_can_not_be_is_damage(path: Path, field: str, value: object) -> None:
    add_token(path, "anna", "admin", None)
    written = json.loads(path.read_text())
    written["tokens"][0][field] = value
    path.write_text(json.dumps(written))

    with pytest.raises(ConfigError, match=r"damaged: .*tokens\[0\]|damaged: .*unknown field"):
        read_tokens(path)


def test_a_folder_or_a_pipe_is_no_file(path: Path) -> None:
    path.mkdir(parents=True)
    pipe = path / "pipe"
    os.mkfifo(pipe, 0o600)

    for each in (path, pipe):
        with pytest.raises(ConfigError, match="is not a file"):
            read_tokens(each)


def test_a_name_has_one_token(path: Path) -> None:
    add_token(path, "anna", "admin", None)

    with pytest.raises(ConfigError, match="has a token; remove it first"):
        add_token(path, "anna", "viewer", None)


@pytest.mark.parametrize("name", ["", "a b", "-x", "a\nb", "<b>", "x" * 65, "é"])
def test_a_name_is_plain(path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="is not a valid name"):
        add_token(path, name, "admin", None)


def test_a_link_stays_one(path: Path, tmp_path: Path) -> None:
    add_token(path, "anna", "admin", None)
    link = tmp_path / "link.json"
    link.symlink_to(path)
    add_token(link, "ben", "viewer", None)

    found = read_tokens(path)
    assert link.is_symlink()
    assert found is not None
    assert [token.name for token in found.tokens] == ["anna", "ben"]


def test_whoever_is_not_there_can_not_be_removed(path: Path) -> None:
    with pytest.raises(ConfigError, match='there is no token of "anna"'):
        remove_token(path, "anna")


def test_a_change_counts_at_once(path: Path) -> None:
    secret = add_token(path, "anna", "admin", None)
    tokens = Tokens(path)
    assert tokens.of_secret(secret) is not None
    remove_token(path, "anna")
    other = add_token(path, "ben", "viewer", None)

    assert tokens.of_secret(secret) is None
    assert tokens.of_secret(other) is not None


def test_nobody_comes_in_by_a_file_that_can_not_be_read(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    secret = add_token(path, "anna", "admin", None)
    tokens = Tokens(path)
    assert tokens.of_secret(secret) is not None
    path.chmod(0o644)

    assert tokens.of_secret(secret) is None
    assert tokens.any()
    assert "chmod 600" in tokens.trouble
    assert [record.getMessage() for record in caplog.records if "tokens-unreadable" in record.getMessage()]
    path.chmod(0o600)
    assert tokens.of_secret(secret) is not None
