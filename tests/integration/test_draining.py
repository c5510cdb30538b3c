"""Draining with real processes: a worker under load finishes, returns tasks and ends, and nothing is lost."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from taskqueue import Client
from taskqueue.cli.main import main
from tests.integration.nursery import WAIT_SECONDS, Forked

if TYPE_CHECKING:
    from tests.integration.conftest import Daemon, DaemonFactory

COMMAND = [sys.executable, "-m", "taskqueue.cli.main", "work", "handlers:crawl", "--exit-when-drained"]

HANDLERS = """
import sys, time

def crawl(task):
    if task.url.endswith("/slow"):
        print(task.url, flush=True)
        sys.stdin.readline()
    time.sleep(0.002)
    with open("ran", "a") as ran:
        ran.write(task.url + "\\n")
"""

TASKS = 3000
A_SECOND = 500

Process = subprocess.Popen[str]
Work = Callable[[str], Process]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def it(daemon: DaemonFactory) -> Daemon:
    return daemon(fetcher_timeout=60, projects={"news": {}})


@pytest.fixture
def client(it: Daemon) -> Iterator[Client]:
    with Client(it.url) as one:
        yield one


@pytest.fixture
def run(it: Daemon, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process; return exit status, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main([*arguments, "--daemon", it.url, "--timeout", "60"])
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def work(it: Daemon, tmp_path: Path) -> Iterator[Work]:
    """Start a worker of this name."""
    (tmp_path / "handlers.py").write_text(HANDLERS)
    with ExitStack() as stack:

        def start(name: str) -> Process:
            command = [*COMMAND, "--name", name, "--daemon", it.url, "-j", "8", "--prefetch", "50"]
            log = stack.enter_context((tmp_path / f"{name}.log").open("a"))
            process = stack.enter_context(
                Forked(
                    command,
                    cwd=tmp_path,
                    text=True,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                )
            )
            stack.callback(process.kill)
            return process

        yield start


def until(what: Callable[[], bool]) -> None:
    """Ask until it is true; pytest's timeout ends it otherwise."""
    while not what():
        select.select([], [], [], 0.02)


def test_a_worker_under_load_is_drained_ends_with_0_and_the_next_one_goes_on(
    it: Daemon, client: Client, run: Run, work: Work, tmp_path: Path
) -> None:
    client.projects.set("news", {"rate": A_SECOND, "burst": 100})  # slow enough that tasks are left when it is drained
    client.push("news", "http://site/slow", priority=1)
    client.push_many("news", [f"http://site/{n}" for n in range(TASKS)])
    first = work("web1")
    assert first.stdout is not None
    assert first.stdin is not None
    first.stdout.readline()
    until(lambda: client.projects.get("news").counts.success > 100)

    status, said, _ = run("fetcher", "drain", "web1")
    assert (status, said.startswith("web1 is draining: 1 fetcher, still holds ")) == (0, True)
    until(lambda: client.fetchers.get("web1").holds == 1)
    assert "draining" in run("fetcher", "show", "web1")[1]
    assert "draining" in run("fetcher", "list")[1]
    assert "draining: web1; resume with: taskqueue fetcher resume web1" in run("why", "news")[1]
    it.kill()
    it.start()
    first.stdin.write("\n")
    first.stdin.flush()
    assert first.wait(WAIT_SECONDS) == 0
    lines = (tmp_path / "web1.log").read_text()
    assert "event=draining name=web1" in lines
    assert "event=drained name=web1" in lines

    left = client.projects.get("news").counts
    assert (left.processing, left.failed, left.ready > 0) == (0, 0, True)
    assert work("web1").wait(WAIT_SECONDS) == 0
    assert client.projects.get("news").counts.success == left.success
    assert "drained, and not connected: web1" in run("fetcher", "list")[1]

    client.projects.set("news", {"rate": inf})
    assert "no fetcher named web1 is connected" in run("fetcher", "resume", "web1")[1]
    work("web1")
    until(lambda: client.projects.get("news").counts.success == TASKS + 1)
    view = client.projects.get("news")
    assert (view.totals.retried, view.totals.timeout) == (0, 0)
    ran = (tmp_path / "ran").read_text().splitlines()
    assert len(ran) == len(set(ran)) == TASKS + 1


def test_a_name_that_nobody_has_is_drained_with_a_word_about_it_and_unknown_is_one_line(run: Run) -> None:
    assert run("fetcher", "show", "web9")[0] == 1
    assert 'no fetcher named "web9" is connected or drained' in run("fetcher", "resume", "web9")[2]

    assert run("fetcher", "drain", "web9") == (
        0,
        "no fetcher named web9 is connected; one that comes gets no tasks until: taskqueue fetcher resume web9\n",
        "",
    )
    shown = json.loads(run("fetcher", "show", "web9", "--json")[1])
    assert (shown["draining"], shown["found"]) == (True, 0)
    assert json.loads(run("log", "--json")[1].splitlines()[0])["what"] == "fetcher drain"
