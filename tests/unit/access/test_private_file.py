"""Which files are private enough for keys and for the list of who comes in."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskqueue.access.private_file import flaw_of, read_private
from taskqueue.errors import ConfigError

ROOT, READER, ANOTHER = 0, 1000, 1001


@pytest.mark.parametrize(
    ("owner", "mode"),
    [
        (READER, 0o600),
        (READER, 0o400),  # systemd's credential where the file system has no access lists
        (ROOT, 0o400),
        (ROOT, 0o440),  # systemd's credential with an access list; a secret of Kubernetes with fsGroup
        (ROOT, 0o640),
    ],
)
def test_a_private_file_is_read_whether_its_reader_owns_it_or_root(owner: int, mode: int) -> None:
    assert flaw_of(owner, mode, READER) == ""


@pytest.mark.parametrize(
    ("owner", "mode"),
    [
        (READER, 0o440),
        (READER, 0o620),
        (READER, 0o604),
        (ROOT, 0o444),  # secrets of Docker and Kubernetes, as they are mounted by default
        (ROOT, 0o644),
        (ROOT, 0o460),
    ],
)
def test_a_file_that_others_may_read_or_write_is_not_private(owner: int, mode: int) -> None:
    assert f"has mode {mode:04o}" in flaw_of(owner, mode, READER)


def test_a_file_of_root_that_its_group_may_read_is_not_private_to_root() -> None:
    assert "has mode 0440" in flaw_of(ROOT, 0o440, ROOT)
    assert flaw_of(ROOT, 0o400, ROOT) == ""


def test_a_file_of_another_user_is_not_private() -> None:
    assert "belongs to user 1001" in flaw_of(ANOTHER, 0o600, READER)


def test_root_is_told_to_become_the_owner_of_a_file_not_to_take_it() -> None:
    assert "run this as that user" in flaw_of(ANOTHER, 0o600, ROOT)
    assert "chown" not in flaw_of(ANOTHER, 0o600, ROOT)


def test_a_link_to_a_private_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / "web1.key").write_text("secret")
    (tmp_path / "..data" / "web1.key").chmod(0o400)
    (tmp_path / "web1.key").symlink_to(Path("..data", "web1.key"))  # as Kubernetes mounts it

    assert read_private(tmp_path / "web1.key", 100, "key") == b"secret"

    (tmp_path / "..data" / "web1.key").chmod(0o444)
    with pytest.raises(ConfigError, match=r"web1\.key has mode 0444"):
        read_private(tmp_path / "web1.key", 100, "key")
