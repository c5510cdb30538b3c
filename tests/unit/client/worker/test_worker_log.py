"""Log of a worker: its line ``summary``, and how often obstacles are logged."""

from __future__ import annotations

import asyncio
from itertools import islice

import pytest

from taskqueue.client.tasks.task import Task
from taskqueue.client.worker import worker_log
from taskqueue.client.worker.worker_log import Ran, WorkerLog, growing_pauses
from taskqueue.protocol.fields import Token
from taskqueue.protocol.values import Assignment


def summary_of(caplog: pytest.LogCaptureFixture, *runs: tuple[str, str]) -> str:
    """Return the summary of runs of (url, outcome)."""

    async def main() -> None:
        log = WorkerLog()
        for url, outcome in runs:
            log.ran(
                Ran(Task(Assignment("p", url, url, Token(1), 60.0)), outcome, 0.5, asyncio.get_running_loop().time())
            )
        log.end()

    caplog.set_level("INFO", "taskqueue.worker")
    asyncio.run(main())
    [summary] = [message for message in caplog.messages if message.startswith("event=summary")]
    return summary


def test_a_summary_names_the_task_that_was_put_off_most(caplog: pytest.LogCaptureFixture) -> None:
    runs = [("http://a/", "retry"), ("http://b/", "retry"), ("http://b/", "done"), ("http://a/", "retry")] * 2

    summary = summary_of(caplog, *runs)

    assert " retry=6 " in summary
    assert summary.endswith(" put_off=4 put_off_url='http://a/'")


def test_that_tasks_are_put_off_twice_is_nothing_to_tell(caplog: pytest.LogCaptureFixture) -> None:
    assert "put_off" not in summary_of(caplog, *[("http://a/", "retry"), ("http://b/", "retry")] * 2)


def test_of_many_tasks_only_the_first_ones_are_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_log, "PUT_OFF_KNOWN", 1)
    runs = [("http://a/", "retry"), *[("http://b/", "retry")] * 5, *[("http://a/", "retry")] * 3]

    assert " put_off=4 put_off_url='http://a/'" in summary_of(caplog, *runs)


def test_what_goes_on_is_said_again_with_growing_pauses() -> None:
    assert list(islice(growing_pauses(), 9)) == [5, 10, 20, 40, 80, 160, 300, 300, 300]
