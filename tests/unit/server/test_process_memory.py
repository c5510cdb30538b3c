"""Memory that the control groups of a process allow."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskqueue.server.limits import group_bytes, machine_bytes

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
