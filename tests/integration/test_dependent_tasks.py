"""Tasks that wait for others, with real processes: pushed from the command line, run by a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from taskqueue import Client, new_task
from taskqueue.cli.main import main

Daemons = Callable[..., Any]


@pytest.fixture
def client(daemon: Daemons, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    url = daemon(projects={"news": {"rate": 1000, "burst": 1000}}).url
    monkeypatch.setenv("TASKQUEUE_DAEMON", url)
    with Client(url) as it:
        yield it


def run_next(client: Client) -> str:
    """Run the next task alone; return its taskid."""
    (task,) = client.select(1)
    client.done(task)
    return task.taskid


def test_a_task_that_was_pushed_with_after_runs_when_its_parents_have_succeeded(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    child = ["push", "news", "http://a/c", "--taskid", "C", "--depends-on", "A", "--depends-on", "http://a/b"]
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


def test_each_of_many_children_runs_once_though_the_daemon_is_killed_while_they_are_released(daemon: Daemons) -> None:
    it = daemon(projects={"news": {}}, turn_tasks=4)
    children = [f"c{number}" for number in range(500)]
    with Client(it.url) as client:
        client.push("news", "http://a/a", taskid="a")
        client.push_many("news", [new_task(f"http://a/{name}", taskid=name, depends_on=["a"]) for name in children])
        assert run_next(client) == "a"
        for _ in range(4):
            it.kill()
            it.start()
        ran: list[str] = []
        while len(ran) < len(children):
            tasks = client.select(500)
            for task in tasks:
                client.done(task)
            ran += [task.taskid for task in tasks]
        assert sorted(ran) == sorted(children)
        assert client.projects.wait("news", timeout=20)
        assert client.projects.get("news").counts.success == len(children) + 1


def test_a_task_for_failures_runs_after_one_and_is_cancelled_if_there_was_none(
    client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    for taskid in "ABC":
        client.push("news", f"http://a/{taskid}", taskid=taskid)
    for taskid, parents in (("alarm", "AB"), ("quiet", "AC")):
        words = [word for parent in parents for word in ("--depends-on", parent)]
        said = ["--taskid", taskid, *words, "--on-parent-failure", "only"]
        assert main(["push", "news", f"http://a/{taskid}", *said]) == 0
    capsys.readouterr()
    assert main(["task", "show", "news", "quiet"]) == 0
    assert "it runs only if one fails" in capsys.readouterr().out
    assert main(["why", "news", "quiet"]) == 0
    assert "it runs only if a parent fails" in capsys.readouterr().out

    for task in client.select(3):
        if task.taskid == "B":
            client.failed(task, "gone", retry=False)
        else:
            client.done(task)
    assert run_next(client) == "alarm"
    assert client.projects.wait("news", timeout=20)
    capsys.readouterr()
    assert main(["task", "show", "news", "quiet"]) == 0
    shown = capsys.readouterr().out
    assert "cancelled" in shown
    assert "no parent has failed" in shown
    assert "it runs only if one fails" in shown
    assert main(["why", "news", "quiet"]) == 0
    assert "as it runs only if a parent fails, and none has" in capsys.readouterr().out


def test_each_task_that_fails_for_good_leads_to_one_other_though_the_daemon_is_killed(daemon: Daemons) -> None:
    it = daemon(projects={"news": {"rate": 1000, "burst": 1000}})
    urls = [f"http://a/{number}" for number in range(40)]
    with Client(it.url) as client:
        template = {"url": "data:,dead/{taskid}", "body": {"save": ["{url}", "{error}"]}}
        client.projects.set("news", {"on_failure": template, "fail_pause_num": 0, "retries": 0})
        client.push_many("news", urls)
        for number in range(4):
            for task in client.select(10):
                client.failed(task, f"HTTP 50{number}")
            it.kill()
            it.start()

        dead: list[str] = []
        while len(dead) < len(urls):
            for task in client.select(10):
                dead.append(task.save[0])
                client.failed(task, "again")
        assert sorted(dead) == sorted(urls)
        assert client.projects.wait("news", timeout=20)
        assert client.projects.get("news").counts.failed == 2 * len(urls)
