"""Tasks that wait for others, with real processes: pushed from the command line, run by a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from taskqueue import Client
from taskqueue.cli.main import main

Daemons = Callable[..., Any]


@pytest.fixture
def client(daemon: Daemons, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    url = daemon(projects={"news": {"rate": 1000, "burst": 1000}}).url
    monkeypatch.setenv("TASKQUEUE_URL", url)
    with Client(url) as it:
        yield it


def run_next(client: Client) -> str:
    """Run the task that is handed out next, and nothing else; its taskid."""
    (task,) = client.select(1)
    client.done(task)
    return task.taskid


def test_a_task_that_was_pushed_with_after_runs_when_its_parents_have_succeeded(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    child = ["push", "news", "http://a/c", "--taskid", "C", "--after", "A", "--after", "http://a/b"]
    assert main([*child, "--on-parent-failure", "wait"]) == 0
    assert main(["task", "list", "news", "--state", "blocked"]) == 0
    assert "http://a/c" in capsys.readouterr().out

    client.push("news", "http://a/a", taskid="A")
    client.push("news", "http://a/b")

    ran = [run_next(client) for _ in range(3)]
    assert (ran[0], ran[2]) == ("A", "C")
    assert client.projects.wait("news", timeout=20)


def test_a_diamond_that_is_pushed_in_reverse_runs_each_task_once_parents_first(client: Client) -> None:
    parents: dict[str, list[str]] = {"D": ["B", "C"], "C": ["A"], "B": ["A"], "A": []}
    for name, its in parents.items():
        assert client.push("news", f"http://a/{name}", taskid=name, depends_on=its) == "new"

    ran = [run_next(client) for _ in range(4)]

    assert (ran[0], sorted(ran[1:3]), ran[3]) == ("A", ["B", "C"], "D")
    assert client.projects.wait("news", timeout=20)
