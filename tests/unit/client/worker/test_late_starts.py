"""Tasks that a worker must not start yet, or no more; against a scripted daemon."""

from __future__ import annotations

import asyncio
import logging
import threading
import time

import pytest
from freezegun import freeze_time
from freezegun.api import FrozenDateTimeFactory, StepTickTimeFactory, TickingDateTimeFactory

from taskqueue import Middleware, Task, Worker
from taskqueue.client.worker.outcome import TooLate
from taskqueue.protocol.fetchers import Hello, Release
from taskqueue.protocol.tasks import Done
from taskqueue.protocol.values import NewTask
from tests.unit.client.conftest import Daemon
from tests.unit.client.worker.test_worker import wanted

Frozen = StepTickTimeFactory | TickingDateTimeFactory | FrozenDateTimeFactory

LONG_SECONDS = 100.0
"""Time within which a task is to be started; longer than a test takes on any machine."""


def test_a_task_is_not_started_before_its_time_and_holds_up_no_slot(daemon: Daemon) -> None:
    started: list[tuple[int, float]] = []

    async def handler(task: Task) -> None:
        started.append((task.token, time.monotonic()))

    async def main() -> float:
        worker = Worker(handler, client=daemon.url, concurrency=1)
        serving = asyncio.ensure_future(worker.serve())
        await wanted(daemon)
        handed_at = time.monotonic()
        daemon.hand_out(1, not_before=1000.0, start_within=LONG_SECONDS)
        daemon.hand_out(2, start_within=LONG_SECONDS)
        await asyncio.to_thread(daemon.hear, Done)
        daemon.hand_out(3, not_before=0.3, start_within=LONG_SECONDS)
        await asyncio.to_thread(daemon.hear, Done)
        worker.stop()
        await serving
        return handed_at

    handed_at = asyncio.run(main())

    assert [token for token, _ in started] == [2, 3]
    assert started[1][1] >= handed_at + 0.3


class Slow(Middleware):
    """Middleware that takes longer than its first task may wait, by the clock that is frozen."""

    def __init__(self, frozen: Frozen) -> None:
        self.heard: list[tuple[list[NewTask] | None, BaseException | None]] = []
        self._frozen = frozen

    def before(self, task: Task) -> None:
        if task.token == 1:
            self._frozen.tick(LONG_SECONDS + 1)

    def after(self, task: Task, *, new: list[NewTask] | None = None, error: BaseException | None = None) -> None:
        self.heard.append((new, error))

    def error(self, task: Task, error: BaseException) -> None:
        pytest.fail("the run did not fail")


def test_a_task_whose_time_has_passed_when_its_handler_would_be_called_goes_back(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    started: list[int] = []

    async def handler(task: Task) -> None:
        started.append(task.token)

    async def main(slow: Slow) -> list[int]:
        worker = Worker(handler, client=daemon.url, middleware=[slow])
        serving = asyncio.ensure_future(worker.serve())
        await wanted(daemon)
        daemon.hand_out(1, start_within=LONG_SECONDS)
        released = [lease.token for lease in (await asyncio.to_thread(daemon.hear, Release)).leases]
        daemon.hand_out(2, start_within=LONG_SECONDS)
        await asyncio.to_thread(daemon.hear, Done)
        worker.stop()
        await serving
        return released

    with freeze_time(real_asyncio=True) as frozen, caplog.at_level(logging.INFO, "taskqueue.worker"):
        slow = Slow(frozen)
        assert asyncio.run(main(slow)) == [1]

    assert started == [2]
    [(new, error), (nothing, none)] = slow.heard
    assert (new, type(error), nothing, none) == (None, TooLate, [], None)
    assert "event=stopped done=1 failed=0 late=1" in caplog.text
    last = [request for request in daemon.heard if isinstance(request, Hello)][-1]
    assert (last.running, 1 in last.holds) == ([], False)


def test_a_task_that_goes_back_is_none_of_those_that_a_worker_may_run(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    started: list[int] = []

    async def handler(task: Task) -> None:
        started.append(task.token)

    async def main(slow: Slow) -> None:
        worker = Worker(handler, client=daemon.url, middleware=[slow], max_tasks=1)
        serving = asyncio.ensure_future(worker.serve())
        await wanted(daemon)
        daemon.hand_out(1, start_within=LONG_SECONDS)
        await asyncio.to_thread(daemon.hear, Release)
        await wanted(daemon)
        daemon.hand_out(2, start_within=LONG_SECONDS)
        await serving

    with freeze_time(real_asyncio=True) as frozen, caplog.at_level(logging.INFO, "taskqueue.worker"):
        asyncio.run(main(Slow(frozen)))

    assert started == [2]
    assert caplog.text.count("event=max-tasks") == 1


def test_a_task_that_is_started_in_time_may_run_for_longer(daemon: Daemon) -> None:
    async def main(frozen: Frozen) -> None:
        async def handler(task: Task) -> None:
            frozen.tick(LONG_SECONDS + 1)
            await asyncio.to_thread(threading.Event().wait, 0.01)

        worker = Worker(handler, client=daemon.url)
        serving = asyncio.ensure_future(worker.serve())
        await wanted(daemon)
        daemon.hand_out(1, start_within=LONG_SECONDS)
        await asyncio.to_thread(daemon.hear, Done)
        worker.stop()
        await serving

    with freeze_time(real_asyncio=True) as frozen:
        asyncio.run(main(frozen))

    assert not any(isinstance(request, Release) for request in daemon.heard)
