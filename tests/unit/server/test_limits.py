"""Limits of the machine: room on the disk, memory that settings allow, and memory that control groups allow."""

from __future__ import annotations

import shutil
from math import inf
from pathlib import Path

import pytest

from taskqueue.errors import ConfigError
from taskqueue.server import limits
from taskqueue.server.config import Config, override
from taskqueue.server.limits import DiskSpace, group_bytes, machine_bytes

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


def test_the_defaults_fit() -> None:
    limits.check_memory(Config())


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [("advanced", "queue_bytes", "1 GiB"), ("limits", "max_leases", 10_000_000), ("store", "cache", "2 GiB")],
)
def test_what_does_not_fit_is_refused_with_what_would(section: str, key: str, value: object) -> None:
    config = override(Config(), section, key, value)

    with pytest.raises(
        ConfigError, match=r"limits.memory = 1 GiB is too little for .*, or set limits.memory = "
    ) as told:
        limits.check_memory(config)

    limits.check_memory(override(config, "limits", "memory", str(told.value).split('"')[1]))
    assert "\n" not in str(told.value)


UNLIMITED = 2**63 - 4096
"""Limit of version 1 for a group without one."""


def tree(root: Path, groups: str, limits: dict[str, object]) -> str:
    """Make a root in which a process is in these groups, which have these limits."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    for name, limit in limits.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{limit}\n")
    return str(root)


@pytest.mark.parametrize(
    ("groups", "limits", "expected"),
    [
        ("0::/system.slice/tq.service\n", {"system.slice/tq.service/memory.max": 512 << 20}, 512 << 20),
        ("0::/a.slice/b.service\n", {"a.slice/memory.max": 1 << 30, "a.slice/b.service/memory.max": "max"}, 1 << 30),
        ("0::/a/b\n", {"memory.max": 3, "a/memory.max": 1, "a/b/memory.max": 2}, 1),
        ("0::/\n", {"memory.max": 256 << 20}, 256 << 20),
        ("4:memory:/a/b\n", {"memory/a/b/memory.limit_in_bytes": UNLIMITED, "memory/a/memory.limit_in_bytes": 7}, 7),
        ("4:memory:/docker/f00d\n0::/\n", {"memory/memory.limit_in_bytes": 9}, 9),
        ("5:cpu,memory:/a\n", {"memory/a/memory.limit_in_bytes": 8}, 8),
        ("5:cpu:/a\n0::/x:y/z\n", {"x:y/memory.max": 6}, 6),
        ("4:memory:/\n", {"memory/memory.limit_in_bytes": UNLIMITED}, None),
        ("0::/a\n", {"a/memory.max": "max"}, None),
        ("0::/gone\n", {}, None),
    ],
    ids=[
        "own",
        "around",
        "smallest",
        "top",
        "version 1",
        "container",
        "together",
        "colon",
        "unlimited, version 1",
        "unlimited",
        "nothing",
    ],
)
def test_the_smallest_limit_on_the_path_of_a_group_counts(
    tmp_path: Path, groups: str, limits: dict[str, object], expected: int | None
) -> None:
    assert group_bytes(tree(tmp_path, groups, limits)) == expected


def test_where_nothing_is_known_of_groups_there_is_no_limit(tmp_path: Path) -> None:
    assert group_bytes(str(tmp_path)) is None


def test_this_process_may_use_something() -> None:
    group = group_bytes()

    assert machine_bytes() > 0
    assert group is None or group > 0
