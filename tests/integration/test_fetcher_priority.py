"""A fast machine and a slow one, as fetcher processes of a real daemon."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from taskqueue import Client
from tests.integration.nursery import Forked, run_forked

if TYPE_CHECKING:
    from tests.integration.conftest import Daemon, DaemonFactory

TASKQUEUE = [sys.executable, "-m", "taskqueue.cli.main"]

HANDLERS = """
import sys

def wait(task):
    print(task.url, flush=True)
    sys.stdin.readline()
"""

Process = subprocess.Popen[str]


@pytest.fixture
def it(daemon: DaemonFactory) -> Daemon:
    """Daemon that takes no fetcher as silent while a test runs."""
    return daemon(auto_create=True, fetcher_timeout=60)


@pytest.fixture
def work(it: Daemon, tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Start ``taskqueue work`` with one place; it ends with the test."""
    (tmp_path / "handlers.py").write_text(HANDLERS)
    with ExitStack() as stack:

        def start(*arguments: str) -> Process:
            command = [
                *TASKQUEUE,
                "work",
                "handlers:wait",
                "-j",
                "1",
                "--prefetch",
                "0",
                "--daemon",
                it.url,
                *arguments,
            ]
            pipe = subprocess.PIPE
            process = stack.enter_context(Forked(command, cwd=tmp_path, text=True, stdin=pipe, stdout=pipe))
            stack.callback(process.kill)
            return process

        yield start


def line_of(process: Process) -> str:
    """Return the task that it has begun."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def let_go(process: Process) -> None:
    """Let its current handler finish."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def wait_for(client: Client, fetchers: int, done: int) -> None:
    """Ask until ``fetchers`` fetchers wait or work, and ``done`` tasks are done."""
    while client.fetchers.list().capacity != fetchers or client.status().counts.success != done:
        select.select([], [], [], 0.02)


def test_a_slow_machine_works_only_while_the_fast_one_is_busy(it: Daemon, work: Callable[..., Process]) -> None:
    with Client(it.url) as client:
        slow = work()
        wait_for(client, 1, 0)
        fast = work("--priority", "10")
        wait_for(client, 2, 0)

        for number, machine in enumerate([fast, slow]):
            client.push("news", f"http://site/{number}")
            assert line_of(machine) == f"http://site/{number}"
        let_go(slow)
        wait_for(client, 2, 1)
        let_go(fast)
        wait_for(client, 2, 2)
        client.push("news", "http://site/2")
        assert line_of(fast) == "http://site/2"

        listed = run_forked([*TASKQUEUE, "fetcher", "list", "--json", "--daemon", it.url], check=True)
        assert sorted(json.loads(line).get("priority", 0) for line in listed.stdout.splitlines()) == [0, 10]
        let_go(fast)
