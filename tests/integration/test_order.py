"""Orders of a project's tasks, on a real daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from taskqueue import Client, new_task
from taskqueue.cli.main import main

if TYPE_CHECKING:
    from tests.integration.conftest import DaemonFactory

DELAYS = {"three": 0.3, "one": 0.1, "four": 0.4, "two": 0.2}
"""Delays of tasks by taskid, in the order of their push."""


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("arrival", ["three", "one", "four", "two"]),
        ("due", ["one", "two", "three", "four"]),
        ("newest", ["two", "four", "one", "three"]),
    ],
)
def test_tasks_behind_a_busy_worker_run_in_the_order_of_their_project(
    daemon: DaemonFactory,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    order: str,
    expected: list[str],
) -> None:
    it = daemon()
    with Client(it.url) as client:
        client.projects.set("news", {"order": order})
        client.push("news", "data:,busy", taskid="busy")
        (busy,) = client.select()
        client.push_many("news", [new_task(f"data:,{name}", taskid=name, delay=each) for name, each in DELAYS.items()])
        while client.projects.get("news").counts.ready < len(DELAYS):
            pass
        client.done(busy)
        it.kill()
        it.start()

        taken = []
        for _ in DELAYS:
            (task,) = client.select()
            taken.append(task.taskid)
            client.done(task)

    assert taken == expected
    monkeypatch.setenv("TASKQUEUE_DAEMON", it.url)
    assert main(["project", "show", "news"]) == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["order", order] in [[words[0], words[-1]] for words in shown if words]
