"""Intake for a loop outside of asyncio: its thread never waits for the daemon."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from taskqueue import BacklogFull, Client, ClientClosed, Task
from taskqueue.client.tasks import outbox
from taskqueue.protocol.fetchers import Hello
from taskqueue.protocol.tasks import Done, NewTasks
from taskqueue.protocol.values import NewTask, TaskReport
from tests.unit.client.conftest import WAIT_SECONDS, Daemon
from tests.unit.client.tasks.test_outbox import Silent


def wanted(daemon: Daemon, capacity: int) -> None:
    while daemon.hear(Hello).capacity != capacity:
        pass


def test_tasks_are_taken_and_reported_by_a_thread_that_is_woken(daemon: Daemon) -> None:
    woken = threading.Event()
    with Client(daemon.url) as client, client.intake(["p"], 1, on_arrival=woken.set) as intake:
        assert intake.take_now() is None
        intake.room = 2
        wanted(daemon, 2)
        daemon.hand_out(1)
        assert woken.wait(WAIT_SECONDS)
        task = intake.take_now()
        assert task is not None
        assert (intake.room, intake.running, intake.take_now()) == (2, 1, None)

        pushed = client.push_soon("p", "http://a/", priority=1)
        reported = client.report_soon(task, ["http://a/1"])
        assert intake.running == 0
        client.settled()

        assert (pushed.result(0), reported.result(0).outcome) == ("new", "done")
    wanted(daemon, 0)
    assert [_url(each) for request in daemon.heard if isinstance(request, NewTasks) for each in request.tasks] == [
        "http://a/"
    ]
    assert [_id(each) for request in daemon.heard if isinstance(request, Done) for each in request.tasks] == ["t1"]


def _url(task: NewTask | None) -> str:
    return task.url if task else ""


def _id(report: TaskReport | None) -> str:
    return report.taskid if report else ""


def test_what_is_called_on_arrival_may_take_at_once(daemon: Daemon) -> None:
    tasks: list[Task | None] = []
    taken = threading.Event()

    def take() -> None:
        tasks.append(intake.take_now())
        taken.set()

    with Client(daemon.url) as client:
        intake = client.intake(room=3, on_arrival=take)
        wanted(daemon, 3)
        daemon.hand_out(1)
        assert taken.wait(WAIT_SECONDS)

    assert [task.token for task in tasks if task] == [1]


def test_a_push_is_refused_in_the_thread_that_pushes(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "UNSETTLED_MOST", 1)
    silent = Silent(daemon)
    with Client(daemon.url) as client:
        first = client.push_soon("p", "http://a/")
        with pytest.raises(BacklogFull):
            client.push_soon("p", "http://a/2")
        with pytest.raises(ValueError, match="relative"):
            client.push_soon("p", "/page")
        assert not first.cancel()
        silent.speak()
        client.settled()

        assert first.result(0) == "new"


@pytest.mark.parametrize(
    "call", [lambda client: client.push_soon("p", "http://a/"), lambda client: client.intake(), lambda it: it.ready()]
)
def test_after_the_client_is_closed_there_is_nothing_and_what_had_no_outcome_gets_closed(
    daemon: Daemon, call: Callable[[Client], object]
) -> None:
    Silent(daemon)
    client = Client(daemon.url)
    intake = client.intake()
    unsettled = client.push_soon("p", "http://a/")
    client.ready()

    client.close()

    assert isinstance(unsettled.exception(WAIT_SECONDS), ClientClosed)
    assert intake.take_now() is None
    intake.close()
    with pytest.raises(ClientClosed):
        call(client)
