"""Systems with hidden files in /proc and /sys, as with ``ProcSubset=pid`` or in gVisor."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from taskqueue import Client
from tests.integration.conftest import WAIT_SECONDS

if TYPE_CHECKING:
    from tests.integration.conftest import DaemonFactory, PeerFactory

HIDE = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWUSER, MS_REC_PRIVATE = 0x00020000, 0x10000000, 0x44000
failed = libc.unshare(CLONE_NEWNS | (CLONE_NEWUSER if os.geteuid() else 0))
failed = failed or libc.mount(b"none", b"/", None, MS_REC_PRIVATE, None)
if failed or libc.mount(b"hidden", FOLDER, b"tmpfs", 0, None):
    sys.exit(os.strerror(ctypes.get_errno()))
"""
"""Program that gets a private file system in which a folder is empty."""

DAEMON = "from taskqueue.server.main import run; sys.exit(run(sys.argv[1]))"
COMMAND = "from taskqueue.cli.main import main; sys.exit(main(sys.argv[1:]))"


def without(folder: str, then: str) -> str:
    """Return a program for which this folder is empty."""
    return f"FOLDER = {folder!r}.encode()\n{HIDE}{then}"


@cache
def may_hide() -> bool:
    """Whether this user may have a private file system."""
    return not subprocess.run([sys.executable, "-c", without("/proc", "")], capture_output=True, check=False).returncode


@pytest.fixture(autouse=True)
def _hides() -> None:
    if not may_hide():
        pytest.skip("takes a mount namespace")


def command(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, without /proc."""
    program = [sys.executable, "-c", without("/proc", COMMAND), *map(str, arguments)]
    return subprocess.run(program, cwd=folder, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)


@pytest.mark.parametrize(
    ("folder", "warnings"),
    [
        ("/proc", ["boot-unknown", "memory-unknown"]),
        ("/proc/sys", ["boot-unknown"]),
        ("/proc/sys/kernel/random", ["boot-unknown"]),
        ("/sys", []),
    ],
)
def test_a_daemon_serves_where_the_system_hides_its_files_and_says_so_once(
    daemon: DaemonFactory, peer: PeerFactory, folder: str, warnings: list[str]
) -> None:
    it = daemon(entry=without(folder, DAEMON), is_forked=False)
    fetcher = peer(it)
    fetcher.push("news", "a")
    fetcher.ask("hello", capacity=1)
    (task,) = fetcher.receive()["tasks"]
    report = {"project": "news", "taskid": "a", "token": task["token"]}

    assert fetcher.ask("done", tasks=[report])["outcomes"] == ["done"]
    assert it.stop() == 0
    said = [line.split(" WARNING ")[1].split()[0] for line in it.log().splitlines() if " WARNING " in line]
    assert said == warnings


def test_where_the_boot_is_unknown_buckets_go_on_after_a_clean_stop_and_begin_empty_after_another(
    daemon: DaemonFactory, peer: PeerFactory
) -> None:
    hidden = without("/proc/sys/kernel/random", DAEMON)
    it = daemon(entry=hidden, is_forked=False, defaults={"rate": 0.0001, "burst": 3})
    peer(it).push("news", "a")

    with Client(it.url) as client:
        it.stop()
        it.start()
        after_stop = client.projects.get("news").tokens
        it.kill()
        it.start()
        after_kill = client.projects.get("news").tokens

    assert after_stop == 3
    assert after_kill < 1


def test_where_memory_is_unknown_a_worker_says_that_it_does_not_bound_it(
    daemon: DaemonFactory, peer: PeerFactory, tmp_path: Path
) -> None:
    (tmp_path / "handlers.py").write_text("def crawl(task):\n    pass\n")
    it = daemon()
    peer(it).push("news", "a", "b")

    ended = command(tmp_path, "work", "handlers:crawl", "--max-memory", "1M", "--max-tasks", 2, "--daemon", it.url)

    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("event=memory-unknown ") == 1
    assert "event=stopped done=2 " in ended.stderr


def test_a_store_that_can_not_be_read_without_proc_is_not_called_damaged(
    daemon: DaemonFactory, peer: PeerFactory, tmp_path: Path
) -> None:
    it = daemon()
    peer(it).push("news", "a")
    it.stop()

    ended = command(tmp_path, "store", "check", it.store_path)

    reason = "reading a store needs /proc, which is not mounted here"
    assert (ended.returncode, ended.stderr) == (1, f"taskqueue: {it.store_path}: {reason}\n")
