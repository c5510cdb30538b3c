"""Log of a worker whose handler blocks its event loop, and the moment when it gives up."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from math import inf

import pytest

from taskqueue import Hung, RunEnded, Task
from taskqueue.client.worker.lease_watch import LeaseWatch, Limits, Run
from taskqueue.client.worker.loop_watch import LOOKS_LEAST, LOOKS_MOST, LoopWatch
from taskqueue.client.worker.worker_log import WorkerLog
from taskqueue.protocol.fields import Token
from taskqueue.protocol.values import Assignment
from tests.unit.client.conftest import WAIT_SECONDS

LOOK_SECONDS = 0.005
LONG_AGO = -1_000_000.0


class Heard(logging.Handler):
    """Log handler that keeps the worker's lines.

    Attributes:
        lines: lines with their stacks.
        blocked, goes_on: set by the line of that event.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.blocked, self.goes_on = threading.Event(), threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.getMessage()}\n{record.stack_info or ''}")
        for event, name in ((self.blocked, "loop-blocked"), (self.goes_on, "loop-goes-on")):
            if record.getMessage().startswith(f"event={name} "):
                event.set()


@pytest.fixture
def heard(caplog: pytest.LogCaptureFixture) -> Iterator[Heard]:
    caplog.set_level(logging.INFO, "taskqueue.worker")
    log, handler = logging.getLogger("taskqueue.worker"), Heard()
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)


def task(token: int) -> Task:
    return Task(Assignment("news", f"t{token}", f"http://a/{token}", Token(token), 60.0))


def run_beside(tasks: list[Task], blocks: Callable[[], Awaitable[None]], give_up: Callable[[Hung], None]) -> int:
    """Run a coroutine as the handler of the first of some tasks, with a watch over its loop; returns its looks."""

    async def handler(watch: LeaseWatch) -> None:
        this = asyncio.current_task()
        assert this is not None
        for each in tasks:
            run = watch.begin(each, this if each is tasks[0] else asyncio.ensure_future(asyncio.sleep(inf)), 0.0)
            run.code.in_loop = True
        await blocks()

    async def main() -> int:
        log = WorkerLog()
        watch = CountedLooks(Limits(2, None, 2), log, lambda *_: None, lambda _: None)
        looking = LoopWatch(watch, log, inf, give_up, LOOK_SECONDS)
        with suppress(RunEnded, asyncio.CancelledError):
            await asyncio.ensure_future(handler(watch))
        looking.close()
        watch.close()
        return watch.looks

    return asyncio.run(main())


class CountedLooks(LeaseWatch):
    """Counter of looks at a loop that does not answer."""

    looks = 0

    def blocking(self) -> list[Run]:
        self.looks += 1
        return super().blocking()


def never(hung: Hung) -> None:
    raise AssertionError(hung)


def test_a_handler_that_blocks_the_loop_is_shown_with_its_url_and_stack_and_that_it_goes_on(heard: Heard) -> None:
    async def requests_get() -> None:
        assert heard.blocked.wait(WAIT_SECONDS)
        assert await asyncio.to_thread(heard.goes_on.wait, WAIT_SECONDS)

    run_beside([task(1), task(2)], requests_get, never)

    [shown] = (line for line in heard.lines if line.startswith("event=loop-blocked "))
    assert "project=news taskid=t1 url='http://a/1'" in shown
    assert "in requests_get\n    assert heard.blocked.wait(" in shown


@pytest.mark.parametrize(("lease_ends_at", "looks"), [(inf, LOOKS_MOST), (LONG_AGO, LOOKS_LEAST)])
def test_a_loop_that_does_not_answer_for_a_moment_is_not_shown(heard: Heard, lease_ends_at: float, looks: int) -> None:
    blocking = task(1)

    async def blocks() -> None:
        blocking.lease_ends_at = lease_ends_at
        assert heard.blocked.wait(WAIT_SECONDS)

    assert run_beside([blocking], blocks, lambda _: None) >= looks


def test_what_a_handler_has_started_is_shown_by_its_stack(heard: Heard) -> None:
    async def part() -> None:
        assert heard.blocked.wait(WAIT_SECONDS)

    async def gathers() -> None:
        await asyncio.gather(part())

    run_beside([task(1), task(2)], gathers, never)

    [shown] = (line for line in heard.lines if line.startswith("event=loop-blocked "))
    assert "url=" not in shown
    assert "in part\n" in shown


@pytest.mark.parametrize("starts", [False, True])
def test_a_handler_that_blocks_the_loop_after_its_lease_is_given_up(heard: Heard, *, starts: bool) -> None:
    tasks, gave_up, given_up = [task(1), task(2)], list[Hung](), threading.Event()

    def give_up(hung: Hung) -> None:
        gave_up.append(hung)
        given_up.set()

    async def blocks() -> None:
        for each in tasks if starts else tasks[:1]:
            each.lease_ends_at = LONG_AGO
        assert given_up.wait(WAIT_SECONDS)

    async def gathers() -> None:
        await asyncio.gather(blocks())

    run_beside(tasks, gathers if starts else blocks, give_up)

    [hung] = gave_up
    assert "project=news url='http://a/1'" in str(hung)
    assert heard.blocked.is_set()


def test_what_blocks_the_loop_after_one_of_several_leases_is_not_given_up_if_it_may_be_another(heard: Heard) -> None:
    tasks = [task(1), task(2)]

    async def part() -> None:
        tasks[0].lease_ends_at = LONG_AGO
        assert heard.blocked.wait(WAIT_SECONDS)

    async def gathers() -> None:
        await asyncio.gather(part())

    run_beside(tasks, gathers, never)

    assert heard.blocked.is_set()
