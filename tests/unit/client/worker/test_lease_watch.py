"""A worker's actions after the lease of a running handler; against a scripted daemon, by a clock that leaps."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from taskqueue import AsyncClient, Hung, RequestRejected, RunEnded, Task, Worker
from taskqueue.protocol.fetchers import Extend, Hello, HelloWanted, Release
from taskqueue.protocol.tasks import Done
from tests.unit.client.conftest import Daemon, LeapingLoop, run_leaping
from tests.unit.client.fetcher.test_draining import Drainer
from tests.unit.client.worker.test_worker import outcome_of

LEASE = 1000.0
"""Seconds of a lease, by the clock that leaps: longer than a test takes on any machine."""
NEVER = 1_000_000.0


class Handlers:
    """Handlers of each kind that go on for ever with task 1, and finish any other.

    Attributes:
        started: set when one has begun task 1.
        ended_in: threads in which one was ended.
        swallowed: times that one was told to end and went on.
    """

    def __init__(self) -> None:
        self.started = threading.Event()
        self.ended_in: list[int] = []
        self.swallowed = 0

    def plain(self, task: Task) -> None:
        """Run in a thread."""
        if task.token == 1:
            self._loop_for_ever()

    def generator(self, task: Task) -> Iterator[str]:
        """Yield for ever."""
        try:
            while task.token == 1:
                yield task.url
                self._pause()
        finally:
            if task.token == 1:
                self.ended_in.append(threading.get_ident())

    def swallowing(self, task: Task) -> None:
        """Go on after it was first told to end."""
        if task.token == 1:
            try:
                self._loop_for_ever()
            except BaseException:
                self.swallowed += 1
                self._loop_for_ever()

    async def asynchronous(self, task: Task) -> None:
        """Run in the event loop."""
        while task.token == 1:
            self.started.set()
            await asyncio.sleep(NEVER)

    async def async_generator(self, task: Task) -> AsyncIterator[str]:
        """Yield in the event loop."""
        while task.token == 1:
            yield task.url
            self.started.set()
            await asyncio.sleep(NEVER)

    async def async_swallowing(self, task: Task) -> None:
        """Go on after it was first cancelled."""
        try:
            await self.asynchronous(task)
        except asyncio.CancelledError:
            self.swallowed += 1
            await self.asynchronous(task)

    def returning_coroutine(self, task: Task) -> Awaitable[None]:
        """Begin in a thread, and go on in the event loop."""
        return self.asynchronous(task)

    def _loop_for_ever(self) -> None:
        while True:
            self._pause()

    def _pause(self) -> None:
        self.started.set()
        threading.Event().wait(0.001)


KINDS = (
    "plain", "generator", "swallowing", "asynchronous", "async_generator", "async_swallowing", "returning_coroutine",
)  # fmt: skip


async def hello_with(daemon: Daemon, true: Callable[[Hello], bool]) -> Hello:
    """Wait for a hello that satisfies the condition."""
    while not true(hello := await asyncio.to_thread(daemon.hear, Hello)):
        pass
    return hello


async def leap_until(loop: LeapingLoop, event: asyncio.Future[Any]) -> None:
    """Leap again and again, with a moment for due actions each time."""
    while not event.done():
        loop.leap(LEASE / 2)
        await asyncio.wait([event], timeout=0.02)


async def begun(daemon: Daemon, worker: Worker, started: threading.Event, **fields: Any) -> asyncio.Task[None]:
    """Start a worker, and dispatch task 1 to it with a lease of LEASE seconds."""
    serving = asyncio.ensure_future(worker.serve())
    await hello_with(daemon, lambda hello: hello.capacity > 0)
    daemon.hand_out(1, timeout=LEASE, **fields)
    await asyncio.to_thread(started.wait, 20)
    return serving


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("says", [True, False])
def test_a_run_is_ended_after_its_lease_and_the_next_one_has_its_place(daemon: Daemon, kind: str, says: bool) -> None:
    said, handlers = Drainer(daemon), Handlers()
    said.ended = [1] if says else []
    # The worker holds the lease until the daemon says that it has ended.
    expected = [(2, True)] if says else [(1, False), (2, True)]

    async def main(loop: LeapingLoop) -> dict[int, Done]:
        worker = Worker(getattr(handlers, kind), client=daemon.url, concurrency=1, max_hung=2)
        serving = await begun(daemon, worker, handlers.started)
        free = asyncio.ensure_future(hello_with(daemon, lambda hello: hello.seen == 1 and not hello.running))
        await leap_until(loop, free)
        daemon.hand_out(2, timeout=NEVER)
        # By number: a request without an answer is sent again after some leaps.
        heard: dict[int, Done] = {}
        while sum(len(done.tasks) for done in heard.values()) < len(expected):
            done = await asyncio.to_thread(daemon.hear, Done)
            heard[done.n] = done
        worker.stop()
        await serving
        return heard

    reports = [(item.token, item.ok) for done in run_leaping(main).values() for item in done.tasks if item]

    assert reports == expected
    assert handlers.swallowed == kind.endswith("swallowing")


@pytest.mark.parametrize("kind", ["plain", "generator", "asynchronous", "async_generator"])
def test_a_run_whose_task_the_daemon_takes_away_is_ended_at_once(daemon: Daemon, kind: str) -> None:
    said, handlers = Drainer(daemon), Handlers()

    async def main(loop: LeapingLoop) -> int:
        worker = Worker(getattr(handlers, kind), client=daemon.url, concurrency=1)
        serving = await begun(daemon, worker, handlers.started)
        said.ended = [1]
        daemon.say(HelloWanted(epoch=1))
        await hello_with(daemon, lambda hello: hello.seen == 1 and not hello.running and not hello.holds)
        daemon.hand_out(2, timeout=NEVER)
        [item] = (await asyncio.to_thread(daemon.hear, Done)).tasks
        worker.stop()
        await serving
        assert item is not None
        return item.token

    assert run_leaping(main) == 2
    assert len(handlers.ended_in) == (kind == "generator")
    assert threading.get_ident() not in handlers.ended_in


def test_a_generator_that_yields_no_task_is_closed_in_its_own_thread(daemon: Daemon) -> None:
    closed_in: list[int] = []

    def generator(task: Task) -> Iterator[object]:
        try:
            yield object()
        finally:
            closed_in.append(threading.get_ident())

    item = outcome_of(daemon, generator)

    assert not item.ok
    assert len(closed_in) == 1
    assert threading.get_ident() not in closed_in


@pytest.mark.parametrize("kind", ["plain", "asynchronous"])
def test_a_handler_that_looks_ends_within_its_overtime_and_its_success_is_reported(daemon: Daemon, kind: str) -> None:
    started = threading.Event()

    def plain(task: Task) -> str:
        started.set()
        return "http://late/" if task.cancelled.wait(20) else ""

    async def asynchronous(task: Task) -> str:
        started.set()
        await task.cancelled
        return "http://late/"

    async def main(loop: LeapingLoop) -> list[str]:
        worker = Worker(plain if kind == "plain" else asynchronous, client=daemon.url, concurrency=1, overtime=NEVER)
        serving = await begun(daemon, worker, started)
        loop.leap(LEASE)
        [item] = (await asyncio.to_thread(daemon.hear, Done)).tasks
        worker.stop()
        await serving
        assert item is not None
        return [new.url for new in item.new if new]

    assert run_leaping(main) == ["http://late/"]


def test_the_daemon_and_the_log_are_told_of_a_place_that_hangs_until_it_is_free(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "taskqueue.worker")
    started, go_on = threading.Event(), threading.Event()

    def blocked_here(task: Task) -> None:
        started.set()
        go_on.wait()

    async def main(loop: LeapingLoop) -> Hello:
        worker = Worker(blocked_here, client=daemon.url, concurrency=2, max_hung=3)
        serving = await begun(daemon, worker, started)
        hanging = asyncio.ensure_future(hello_with(daemon, lambda hello: hello.hung is not None))
        await leap_until(loop, hanging)
        told = asyncio.ensure_future(until(lambda: "event=hung" in caplog.text))
        await leap_until(loop, told)
        go_on.set()
        await hello_with(daemon, lambda hello: hello.hung is None and not hello.running)
        worker.stop()
        await serving
        return hanging.result()

    hello = run_leaping(main)

    assert hello.running == [1]
    assert hello.hung is not None
    assert (hello.hung.places, hello.hung.project, hello.hung.taskid, hello.hung.url) == (1, "p", "t1", "http://a/1")
    first, *_ = (record for record in caplog.records if "event=overdue" in record.getMessage())
    again, *_ = (record for record in caplog.records if "event=hung" in record.getMessage())
    assert "places=1 of=2 " in again.getMessage()
    for record in (first, again):
        assert record.levelno == logging.WARNING
        assert "url='http://a/1'" in record.getMessage()
        assert "in blocked_here" in (record.stack_info or "")
    assert " hung=1 " in caplog.text
    assert "event=stopped done=0 failed=0 ended=1" in caplog.text


async def until(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.to_thread(threading.Event().wait, 0.005)


def test_a_worker_whose_places_all_hang_gives_up_and_hands_back_the_rest(daemon: Daemon) -> None:
    started, go_on = threading.Event(), threading.Event()

    def blocked(task: Task) -> None:
        started.set()
        go_on.wait()

    async def main(loop: LeapingLoop) -> list[int]:
        worker = Worker(blocked, client=daemon.url, concurrency=1, prefetch=1)
        serving = await begun(daemon, worker, started)
        daemon.hand_out(2, timeout=NEVER, not_before=NEVER)
        await leap_until(loop, serving)
        with pytest.raises(Hung, match=r"places=1 of=1 seconds=\d.* url='http://a/1'"):
            serving.result()
        go_on.set()
        return [lease.token for lease in (await asyncio.to_thread(daemon.hear, Release)).leases]

    assert run_leaping(main) == [2]


def test_a_worker_goes_on_when_a_handler_whose_task_is_taken_away_takes_a_while_to_end(daemon: Daemon) -> None:
    said, started, go_on = Drainer(daemon), threading.Event(), threading.Event()

    def slow_request(task: Task) -> None:
        if task.token == 1:
            started.set()
            go_on.wait()

    async def main(loop: LeapingLoop) -> int:
        worker = Worker(slow_request, client=daemon.url, concurrency=1)
        serving = await begun(daemon, worker, started)
        said.ended = [1]
        daemon.say(HelloWanted(epoch=1))
        await hello_with(daemon, lambda hello: hello.hung is not None)
        for _ in range(10):
            loop.leap(LEASE / 100)
            await asyncio.wait([serving], timeout=0.02)
        go_on.set()
        await hello_with(daemon, lambda hello: not hello.running)
        daemon.hand_out(2, timeout=NEVER)
        [item] = (await asyncio.to_thread(daemon.hear, Done)).tasks
        worker.stop()
        await serving
        assert item is not None
        return item.token

    assert run_leaping(main) == 2


def test_a_lease_is_extended_up_to_so_many_and_then_its_run_is_ended(daemon: Daemon) -> None:
    handlers = Handlers()

    async def main(loop: LeapingLoop) -> float:
        async with AsyncClient(daemon.url) as client:
            worker = Worker(handlers.asynchronous, client=client, concurrency=1, extend=True, extend_most=2.5)
            serving = await begun(daemon, worker, handlers.started)
            free = asyncio.ensure_future(hello_with(daemon, lambda hello: hello.seen == 1 and not hello.running))
            began_at = loop.time()
            while not free.done():
                loop.leap(LEASE / 20)
                # The first answer may come with what is due, so only after the second all that is due was sent; after
                # the third it is answered.
                for _ in range(3):
                    with suppress(RequestRejected):
                        await client.why("p")
            worker.stop()
            await serving
            return loop.time() - began_at

    lasted = run_leaping(main)

    *whole, last = (request.seconds for request in daemon.heard if isinstance(request, Extend))
    assert set(whole) == {LEASE}
    assert last is not None
    assert last < LEASE
    assert lasted >= 2.4 * LEASE


def test_a_handler_that_extends_its_own_lease_has_that_time(daemon: Daemon) -> None:
    async def main(loop: LeapingLoop) -> bool:
        async with AsyncClient(daemon.url) as client:

            async def handler(task: Task) -> None:
                started.set()
                await client.extend(task, NEVER)
                loop.leap(2 * LEASE)
                for _ in range(5):  # Due actions happen meanwhile.
                    await asyncio.sleep(0)

            started = threading.Event()
            worker = Worker(handler, client=client, concurrency=1)
            serving = await begun(daemon, worker, started)
            [item] = (await asyncio.to_thread(daemon.hear, Done)).tasks
            worker.stop()
            await serving
            assert item is not None
            return item.ok

    assert run_leaping(main)


def test_a_stopped_worker_ends_a_plain_handler_that_does_not_end_in_its_grace(daemon: Daemon) -> None:
    ended = threading.Event()
    started = threading.Event()

    def endless(task: Task) -> None:
        try:
            while True:
                started.set()
        except RunEnded:
            ended.set()
            raise

    async def main() -> list[int]:
        worker = Worker(endless, client=daemon.url, concurrency=1, grace=0.05)
        serving = await begun(daemon, worker, started)
        worker.stop()
        await serving
        return [lease.token for lease in (await asyncio.to_thread(daemon.hear, Release)).leases]

    assert asyncio.run(main()) == [1]
    assert ended.wait(20)


@pytest.mark.parametrize(
    "options", [{"overtime": -1}, {"overtime": float("inf")}, {"extend_most": 0.5}, {"max_hung": 0}]
)
def test_limits_that_can_not_be_are_refused_with_their_name(options: dict[str, Any]) -> None:
    [name] = options

    with pytest.raises(ValueError, match=f"{name}: expected "):
        Worker(print, **options)
