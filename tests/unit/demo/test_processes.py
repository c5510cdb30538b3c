"""Processes of the demo: supervised while it runs, gone afterwards."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from taskqueue.demo import processes as module
from taskqueue.demo.processes import Processes, locked
from taskqueue.errors import TaskQueueError

SERVER = ("http.server", "--bind", "127.0.0.1", "0")
"""Program that runs until it is stopped."""

STARTER = """
import sys
from pathlib import Path
from taskqueue.demo.processes import Processes, locked

with locked(Path(sys.argv[1])) as lock:
    processes = Processes(Path(sys.argv[1]), lock)
    processes.start("child", "http.server", "--bind", "127.0.0.1", "0")
    print(processes.pid("child"), flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with locked(tmp_path) as lock:
        it = Processes(tmp_path, lock)
        yield it
        it.kill_all()


def wait(pid: int) -> None:
    """Wait until the process has ended."""
    with suppress(ProcessLookupError):
        watch = os.pidfd_open(pid)
        assert select.select([watch], [], [], 30)[0]
        os.close(watch)


def test_what_runs_is_not_dead(processes: Processes) -> None:
    processes.start("child", *SERVER)

    assert processes.dead() == {}


def test_one_that_was_killed_is_told_and_runs_again_if_it_is_restarted(processes: Processes) -> None:
    processes.start("child", *SERVER)
    pid = processes.pid("child")
    os.kill(pid, signal.SIGKILL)
    wait(pid)

    assert processes.dead() == {"child": "was killed by SIGKILL"}
    processes.restart("child")

    assert processes.dead() == {}
    assert processes.pid("child") != pid


def test_one_that_ends_by_itself_is_told_with_its_last_words(processes: Processes) -> None:
    processes.start("child", "no.such.module")
    wait(processes.pid("child"))

    assert processes.dead() == {"child": "ended with exit status 1"}
    assert processes.last_words("child").endswith("(ModuleNotFoundError: No module named 'no')")


def test_one_that_dies_again_and_again_is_given_up(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RESTARTS", 1)
    processes.start("child", "no.such.module")
    processes.restart("child")
    wait(processes.pid("child"))

    with pytest.raises(TaskQueueError, match=r"the child doesn't stay alive: .*No module named 'no'"):
        processes.restart("child")


def test_stopping_ends_processes_and_waits_for_it(processes: Processes) -> None:
    for name in ("one", "two"):
        processes.start(name, *SERVER)
    pids = [processes.pid(name) for name in ("one", "two")]

    processes.stop("one", "two", "never started")

    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []


def test_one_that_does_not_listen_is_killed(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STOP_SECONDS", 0.0)
    processes.start("child", *SERVER)
    pid = processes.pid("child")

    processes.stop("child")

    assert not Path(f"/proc/{pid}").exists()


def test_when_the_starter_is_killed_its_processes_die_and_the_folder_is_free(tmp_path: Path) -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with starter:
        assert starter.stdout is not None
        child = int(starter.stdout.readline())
        starter.kill()

    wait(child)

    with locked(tmp_path):
        pass


def test_a_folder_that_is_in_use_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOCK_SECONDS", 0.0)

    with locked(tmp_path), pytest.raises(TaskQueueError, match="another demo runs"), locked(tmp_path):
        pass
