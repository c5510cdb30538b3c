"""Leases that a client keeps for its callers, and the event of their loss."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from math import inf
from typing import Any

import pytest

from taskqueue import AsyncClient, Client, RequestRejected, Task
from taskqueue.client.fetcher.leases import EXTEND_MOST
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.fetchers import Extend, Hello, HelloWanted, TokensReply
from taskqueue.protocol.messages import AnyOutgoing, AnyRequest
from taskqueue.protocol.tasks import NewTasks
from tests.unit.client.conftest import WAIT_SECONDS, Daemon, LeapingLoop, friendly, run_leaping
from tests.unit.client.fetcher.test_draining import Drainer, wanted

LEASE = 600.0


def extensions(daemon: Daemon) -> list[float | None]:
    """Return the seconds of all requested extensions."""
    return [request.seconds for request in daemon.heard if isinstance(request, Extend)]


async def settled(client: AsyncClient) -> None:
    """Wait until all due requests have been sent and answered: the first answer may come together with due requests."""
    for _ in range(3):
        with suppress(RequestRejected):
            await client.why("p")


async def let_pass(client: AsyncClient, loop: LeapingLoop, leases: float) -> None:
    """Let ``leases`` pass, in steps in which each extension is in time."""
    for _ in range(round(10 * leases)):
        loop.leap(LEASE / 10)
        await settled(client)


async def first_of(stream: AsyncIterator[Task], daemon: Daemon) -> Task:
    """Dispatch task 1 and take it."""
    taking = asyncio.ensure_future(anext(stream))
    await wanted(daemon, 16)
    daemon.hand_out(1, timeout=LEASE)
    return await taking


@asynccontextmanager
async def kept(client: AsyncClient, daemon: Daemon, way: str, most: float = EXTEND_MOST) -> AsyncIterator[Task]:
    """Keep a task by a stream that extends, or by a block."""
    stream = client.stream(extend=way == "stream", extend_most=most)
    task = await first_of(stream, daemon)
    if way == "stream":
        yield task
    else:
        async with client.keep(task, extend_most=most) as lost:
            assert lost is task.lost
            yield task
    await stream.aclose()


WAYS = pytest.mark.parametrize("way", ["stream", "block"])


@WAYS
def test_a_kept_task_is_extended_until_it_is_reported(daemon: Daemon, way: str) -> None:
    async def main(loop: LeapingLoop) -> int:
        async with AsyncClient(daemon.url) as client, kept(client, daemon, way) as task:
            await let_pass(client, loop, 3)
            assert not task.lost
            await client.done(task)
            reported = len(extensions(daemon))
            await let_pass(client, loop, 3)
            return reported

    reported = run_leaping(main)

    assert extensions(daemon) == reported * [LEASE]
    assert reported >= 3


@WAYS
def test_a_kept_task_is_extended_until_its_report_leaves_which_may_wait_for_pushes(daemon: Daemon, way: str) -> None:
    async def main(loop: LeapingLoop) -> int:
        async with AsyncClient(daemon.url, timeout=inf) as client, kept(client, daemon, way) as task:
            daemon.script = lambda request: [] if isinstance(request, NewTasks) else friendly(request)
            client.push_soon("p", "http://a/")
            push = await asyncio.to_thread(daemon.hear, NewTasks)
            report = client.report_soon(task)
            loop.leap(LEASE * 0.7)
            await asyncio.to_thread(daemon.hear, Extend)
            daemon.script = friendly
            for reply in friendly(push):
                daemon.say(reply)
            assert (await asyncio.wait_for(report, WAIT_SECONDS)).outcome == "done"
            kept_on = len(extensions(daemon))
            await let_pass(client, loop, 2)
            return kept_on

    kept_on = run_leaping(main)

    assert extensions(daemon) == kept_on * [LEASE]


@WAYS
def test_a_kept_task_is_lost_after_so_many_leases_however_long_its_code_hangs(daemon: Daemon, way: str) -> None:
    async def main(loop: LeapingLoop) -> tuple[bool, bool]:
        async with AsyncClient(daemon.url) as client, kept(client, daemon, way, 2.5) as task:
            await let_pass(client, loop, 2.3)
            before = bool(task.lost)
            await let_pass(client, loop, 3)
            return before, bool(task.lost)

    before, after = run_leaping(main)

    *whole, last = extensions(daemon)
    assert (before, after) == (False, True)
    assert whole[0] == LEASE
    assert last is not None
    assert sum(seconds or 0.0 for seconds in extensions(daemon)) <= 2.5 * LEASE
    assert last < LEASE


@WAYS
def test_a_task_whose_extension_is_not_answered_is_lost_when_its_lease_is_over(daemon: Daemon, way: str) -> None:
    daemon.script = lambda request: [] if isinstance(request, Extend) else friendly(request)

    async def main(loop: LeapingLoop) -> bool:
        async with AsyncClient(daemon.url) as client, kept(client, daemon, way) as task:
            loop.leap(LEASE * 0.9)
            await settled(client)
            before = bool(task.lost)
            loop.leap(LEASE * 0.2)
            await asyncio.wait_for(task.lost, WAIT_SECONDS)
            return before

    assert not run_leaping(main)


@pytest.mark.parametrize(
    "answer",
    [
        lambda n: TokensReply(n=n, counted=0),
        lambda n: ErrorReply(n=n, code="malformed", reason="no"),
    ],
)
def test_a_task_whose_extension_is_refused_is_lost_and_not_asked_for_again(
    daemon: Daemon, answer: Callable[[int], AnyOutgoing]
) -> None:
    def script(request: AnyRequest) -> list[AnyOutgoing]:
        return [answer(request.n)] if isinstance(request, Extend) else friendly(request)

    async def main(loop: LeapingLoop) -> bool:
        async with AsyncClient(daemon.url) as client, kept(client, daemon, "stream") as task:
            await let_pass(client, loop, 2)
            return bool(task.lost)

    daemon.script = script

    assert run_leaping(main)
    assert len(extensions(daemon)) == 1


@pytest.mark.parametrize("way", ["stream", "block", "plain stream", "select"])
def test_a_task_is_lost_when_the_daemon_says_so_and_is_extended_no_more(daemon: Daemon, way: str) -> None:
    said = Drainer(daemon)

    async def main(loop: LeapingLoop) -> None:
        async with AsyncClient(daemon.url) as client:
            if way == "select":
                selecting = asyncio.ensure_future(client.select(1))
                await wanted(daemon, 1)
                daemon.hand_out(1, timeout=LEASE)
                [task] = await selecting
                await said_lost(said, daemon, task)
            else:
                async with kept(client, daemon, way) if way != "plain stream" else streamed(client, daemon) as task:
                    await said_lost(said, daemon, task)
                    await let_pass(client, loop, 2)

    run_leaping(main)

    assert extensions(daemon) == []


@asynccontextmanager
async def streamed(client: AsyncClient, daemon: Daemon) -> AsyncIterator[Task]:
    stream = client.stream()
    yield await first_of(stream, daemon)
    await stream.aclose()


async def said_lost(said: Drainer, daemon: Daemon, task: Task) -> None:
    """Have the daemon end the lease, and wait until the task's event is set."""
    assert not task.lost
    said.ended = [1]
    daemon.say(HelloWanted(epoch=1))
    await asyncio.wait_for(task.lost, WAIT_SECONDS)


def test_the_tasks_of_a_loop_that_was_broken_off_are_not_extended_any_more(daemon: Daemon) -> None:
    async def main(loop: LeapingLoop) -> None:
        async with AsyncClient(daemon.url) as client:
            async with kept(client, daemon, "stream"):
                pass
            await let_pass(client, loop, 2)

    run_leaping(main)

    assert extensions(daemon) == []


def test_the_tasks_of_a_loop_that_ended_because_it_is_drained_are_kept(daemon: Daemon) -> None:
    said = Drainer(daemon)

    async def main(loop: LeapingLoop) -> None:
        async with AsyncClient(daemon.url) as client:
            stream = client.stream(extend=True, until_drained=True)
            await first_of(stream, daemon)
            said.drain()
            assert [task async for task in stream] == []
            await let_pass(client, loop, 1)

    run_leaping(main)

    assert extensions(daemon) == [LEASE]


def test_a_task_that_waited_for_long_is_extended_in_time(daemon: Daemon) -> None:
    async def main(loop: LeapingLoop) -> bool:
        async with AsyncClient(daemon.url) as client:
            stream = client.stream(extend=True)
            first = await first_of(stream, daemon)
            daemon.hand_out(2, timeout=LEASE)
            await settled(client)
            await let_pass(client, loop, 0.8)
            await client.done(first)
            task = await anext(stream)
            await let_pass(client, loop, 0.5)
            return bool(task.lost)

    assert not run_leaping(main)


def test_a_task_that_another_process_has_sent_is_extended_at_once(daemon: Daemon) -> None:
    async def main(loop: LeapingLoop) -> None:
        async with AsyncClient(daemon.url) as client:
            async with kept(client, daemon, "stream") as task:
                travelled = Task.from_bytes(task.to_bytes())
            async with client.keep(travelled):
                assert extensions(daemon) == [None]
                await let_pass(client, loop, 1)

    run_leaping(main)

    assert extensions(daemon) == [None, LEASE]


def test_a_task_that_another_process_has_sent_too_late_is_lost_and_nothing_is_waited_for(daemon: Daemon) -> None:
    async def main(loop: LeapingLoop) -> None:
        async with AsyncClient(daemon.url) as client:
            async with kept(client, daemon, "block") as task:
                travelled = Task.from_bytes(task.to_bytes())
            daemon.script = lambda request: (
                [TokensReply(n=request.n, counted=0)] if isinstance(request, Extend) else friendly(request)
            )
            asked_for: list[float] = []
            call_at = loop.call_at

            def noting(when: float, *args: Any, **more: Any) -> asyncio.TimerHandle:
                asked_for.append(when)
                return call_at(when, *args, **more)

            loop.call_at = noting  # type: ignore[assignment, method-assign]
            async with client.keep(travelled) as lost:
                assert lost
            assert inf not in asked_for

    run_leaping(main)

    assert extensions(daemon) == [None]


def test_a_task_that_is_kept_twice_is_kept_until_both_have_left_it(daemon: Daemon) -> None:
    async def main(loop: LeapingLoop) -> None:
        async with AsyncClient(daemon.url) as client:
            async with kept(client, daemon, "block") as task:
                async with client.keep(task):
                    pass
                await let_pass(client, loop, 1)
            await let_pass(client, loop, 1)

    run_leaping(main)

    assert extensions(daemon) == [LEASE]


def test_whoever_waits_for_the_event_of_a_task_is_told_when_its_client_is_closed(daemon: Daemon) -> None:
    async def main(loop: LeapingLoop) -> Task:
        async with AsyncClient(daemon.url) as client:
            return await first_of(client.stream(), daemon)

    assert run_leaping(main).lost


@pytest.mark.parametrize("most", [0.5, float("nan"), "10"])
def test_less_than_one_lease_is_refused(daemon: Daemon, most: float) -> None:
    async def main() -> None:
        async with AsyncClient(daemon.url) as client:
            await anext(client.stream(extend=True, extend_most=most))

    with pytest.raises((TypeError, ValueError), match="extend_most: expected"):
        asyncio.run(main())


def test_a_thread_keeps_a_task_and_is_told_when_it_is_lost(daemon: Daemon) -> None:
    said = Drainer(daemon)

    def hand_out() -> None:
        while daemon.hear(Hello).capacity != 1:
            pass
        daemon.hand_out(1, timeout=LEASE)

    with Client(daemon.url) as client, ThreadPoolExecutor(1) as threads:
        handing = threads.submit(hand_out)
        for task in client.stream(places=1, extend=True):
            handing.result()
            with client.keep(Task.from_bytes(task.to_bytes())) as another:
                assert daemon.hear(Extend).seconds is None
                assert not task.lost.wait(0)
                said.ended = [1]
                daemon.say(HelloWanted(epoch=1))
                assert task.lost.wait(WAIT_SECONDS)
                assert another.wait(WAIT_SECONDS)
            break
