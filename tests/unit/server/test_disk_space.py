"""Disk: when it is checked, and when it has room. The file system is the real one; its limits are made to fit."""

from __future__ import annotations

import shutil
from math import inf
from pathlib import Path

from taskqueue.server.limits import DiskSpace

TOO_MUCH = 1 << 60


def test_a_disk_with_enough_free_has_room_and_is_not_looked_at_by_itself(tmp_path: Path) -> None:
    disk = DiskSpace(str(tmp_path), min_free=1)

    assert not disk.look(0.0)
    assert disk.has_room
    assert disk.due_at == inf


def test_a_disk_that_is_nearly_full_is_looked_at_by_itself_until_it_has_room(tmp_path: Path) -> None:
    disk = DiskSpace(str(tmp_path), min_free=TOO_MUCH)

    assert disk.look(10.0)
    assert not disk.has_room
    assert disk.due_at == 15.0

    disk.use(1)
    assert disk.look(disk.due_at)
    assert disk.has_room
    assert disk.due_at == inf


def test_it_is_looked_at_twenty_times_a_second_and_not_more_often(tmp_path: Path) -> None:
    disk = DiskSpace(str(tmp_path / "disk"), min_free=TOO_MUCH)
    disk.look(0.0)
    (tmp_path / "disk").mkdir()

    assert not disk.look(0.04)
    assert disk.look(0.05)


def test_another_limit_is_heeded_at_once(tmp_path: Path) -> None:
    disk = DiskSpace(str(tmp_path), min_free=1)
    disk.look(0.0)

    disk.use(TOO_MUCH)
    assert disk.look(0.04)


def test_after_it_was_full_a_tenth_more_must_be_free(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    disk = DiskSpace(str(tmp_path), min_free=TOO_MUCH)
    disk.look(0.0)

    disk.use(int(free / 1.05))  # that much is free, and not a tenth more
    assert not disk.look(100.0)
    disk.use(free // 2)
    assert disk.look(200.0)


def test_a_folder_that_is_not_there_is_taken_to_have_room(tmp_path: Path) -> None:
    disk = DiskSpace(str(tmp_path / "nowhere"), min_free=TOO_MUCH)

    assert not disk.look(0.0)
    assert disk.has_room
