"""Ends of leases seen from outside: no task circulates for ever, and one that kills its workers fails alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from taskqueue import Client, Task
from taskqueue.cli.main import main
from tests.integration.nursery import Forked

if TYPE_CHECKING:
    from tests.integration.conftest import Daemon, DaemonFactory

URL = "http://site/"
LOOKS = 200
"""Round trips in which the daemon would dispatch a task again, if it believed that the client had room."""

HANDLERS = """
import os

def live(task):
    if "poison" in task.url:
        os._exit(9)
"""


@pytest.fixture
def it(daemon: DaemonFactory) -> Daemon:
    return daemon(defaults={"processing_timeout": 0.2}, fetcher_timeout=30)


@pytest.fixture
def idle(it: Daemon) -> Iterator[Client]:
    """Client that has taken a task, and does nothing else."""
    with Client(it.url) as one:
        yield one


@pytest.fixture
def other(it: Daemon) -> Iterator[Client]:
    with Client(it.url) as one:
        yield one


def run_out(other: Client, task: Task) -> None:
    while not other.projects.get("p").totals.timeout:
        pass


def report(other: Client, task: Task) -> None:
    assert other.done(task).outcome == "done"
    other.push("p", URL, force_update=True)


def cancel(other: Client, task: Task) -> None:
    assert other.tasks.cancel("p", [task.taskid]) == ["done"]
    other.push("p", URL, force_update=True)


def clear(other: Client, task: Task) -> None:
    other.projects.clear("p")
    other.push("p", URL)


ENDS: dict[str, Callable[[Client, Task], None]] = {
    "its time": run_out,
    "task cancel": cancel,
    "project clear": clear,
    "a done from elsewhere": report,
}


@pytest.mark.parametrize("end", ENDS)
def test_an_idle_client_whose_lease_has_ended_is_not_handed_the_task_again(
    idle: Client, other: Client, end: str
) -> None:
    idle.push("p", URL)
    (task,) = idle.select(1)

    ENDS[end](other, task)
    for _ in range(LOOKS):
        other.status()

    assert other.projects.get("p").totals.selected == 1
    assert other.projects.get("p").counts.ready == 1


def test_a_success_that_comes_after_its_time_counts(idle: Client, other: Client) -> None:
    idle.push("p", URL)
    (task,) = idle.select(1)
    run_out(other, task)

    assert idle.done(task).outcome == "done"
    assert other.tasks.get("p", url=URL).state == "success"


def test_after_that_the_client_is_handed_tasks_as_before(idle: Client, other: Client) -> None:
    idle.push("p", URL)
    (task,) = idle.select(1)
    run_out(other, task)
    idle.failed(task, "too late")

    (again,) = idle.select(1)
    assert again.taskid == task.taskid


def test_a_task_that_kills_its_workers_fails_alone(daemon: DaemonFactory, tmp_path: Path) -> None:
    (tmp_path / "handlers.py").write_text(HANDLERS)
    it = daemon(defaults={"retries": 0}, fetcher_timeout=1)
    command = [
        sys.executable,
        "-m",
        "taskqueue",
        "work",
        "handlers:live",
        "p",
        "-j",
        "4",
        "--quiet",
        "--daemon",
        it.url,
    ]
    with Client(it.url) as client:
        client.push_many("p", ["http://site/poison", *(f"http://site/{n}" for n in range(30))])
        counts = client.projects.get("p").counts
        while counts.success + counts.failed < 31:
            with Forked(command, cwd=tmp_path) as worker:
                while worker.poll() is None and counts.success + counts.failed < 31:
                    counts = client.projects.get("p").counts
                worker.terminate()

        assert (counts.success, counts.failed, counts.ready) == (30, 1, 0)
        assert "running=" in it.wait_for_log("fetcher-silent")
        poison = client.tasks.get("p", url="http://site/poison")
        assert {attempt.outcome for attempt in poison.history} == {"crashed"}
        assert poison.error.startswith("its fetcher fell silent while it ran")


def test_the_history_of_a_task_says_when_four_fifths_of_its_lease_have_passed(
    daemon: DaemonFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    it = daemon()
    with Client(it.url) as client:
        client.push("news", "http://a/", taskid="a", timeout=5)
        client.select(1)
        while not (history := client.tasks.get("news", "a").history):
            pass

        assert history[-1].outcome == "slow"
        assert main(["task", "show", "news", "a", "--daemon", it.url]) == 0
        assert "four fifths of its lease have passed" in capsys.readouterr().out
