"""Draining of a client: running tasks finish, waiting ones go back, and then it may end."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable

import pytest

from taskqueue import AsyncClient, Client, Task, Worker
from taskqueue.client.connection.session import ClientSession
from taskqueue.protocol.codec import encode
from taskqueue.protocol.fetchers import Hello, HelloWanted, Release, Welcome
from taskqueue.protocol.fields import Token
from taskqueue.protocol.messages import AnyOutgoing, AnyRequest
from taskqueue.protocol.tasks import Done
from tests.unit.client.conftest import Daemon, friendly


class Drainer:
    """Script of a daemon that drains a client's name.

    Attributes:
        ended: tokens of ended leases, for the next welcomes.
    """

    def __init__(self, daemon: Daemon, *, is_draining: bool = False) -> None:
        self.ended: list[int] = []
        self._daemon = daemon
        self._is_draining = is_draining
        daemon.script = self._answer

    def drain(self) -> None:
        self._is_draining = True
        self._daemon.say(HelloWanted(epoch=1))

    def resume(self) -> None:
        self._is_draining = False
        self._daemon.say(HelloWanted(epoch=1))

    def _answer(self, request: AnyRequest) -> list[AnyOutgoing]:
        replies = friendly(request)
        for reply in replies:
            if isinstance(reply, Welcome):
                reply.draining, reply.ended = self._is_draining, self.ended
        return replies


async def wanted(daemon: Daemon, capacity: int) -> None:
    while (await asyncio.to_thread(daemon.hear, Hello)).capacity != capacity:
        pass


async def released(daemon: Daemon) -> list[int]:
    return [lease.token for lease in (await asyncio.to_thread(daemon.hear, Release)).leases]


def using(daemon: Daemon, use: Callable[[AsyncClient], Awaitable[None]]) -> None:
    async def main() -> None:
        async with AsyncClient(daemon.url) as client:
            await use(client)

    asyncio.run(main())


# ---------------------------------------------------------------------------------------- a plain client


def test_a_client_that_holds_nothing_is_drained_as_soon_as_it_is_told(daemon: Daemon) -> None:
    drainer = Drainer(daemon)

    async def use(client: AsyncClient) -> None:
        assert not await client.wait_drained(timeout=0)
        await asyncio.to_thread(daemon.hear, Hello)
        drainer.drain()
        assert await client.wait_drained()

    using(daemon, use)


def test_a_client_is_drained_when_all_that_it_holds_is_reported(daemon: Daemon) -> None:
    drainer = Drainer(daemon)

    async def use(client: AsyncClient) -> None:
        selecting = asyncio.ensure_future(client.select(1))
        await wanted(daemon, 1)
        daemon.hand_out(1)
        [task] = await selecting
        drainer.drain()
        await client._draining.told.wait()
        assert not await client.wait_drained(timeout=0)
        await client.done(task)
        assert await client.wait_drained(timeout=0)

    using(daemon, use)


def test_a_loop_that_waits_ends_when_it_is_drained_and_what_it_has_not_yielded_goes_back(daemon: Daemon) -> None:
    drainer = Drainer(daemon)

    async def use(client: AsyncClient) -> None:
        taken = []
        async for task in client.stream(places=3, until_drained=True):
            taken.append(task.token)
            drainer.drain()
            assert await released(daemon) == [2, 3]
            await client.done(task)
        assert taken == [1]
        assert await client.wait_drained(timeout=0)

    async def hand_out() -> None:
        await wanted(daemon, 3)
        daemon.hand_out(1, 2, 3)

    async def both(client: AsyncClient) -> None:
        await asyncio.gather(use(client), hand_out())

    using(daemon, both)


def test_a_loop_that_is_asleep_ends_when_it_is_drained(daemon: Daemon) -> None:
    drainer = Drainer(daemon)

    async def use(client: AsyncClient) -> None:
        async def run() -> list[Task]:
            return [task async for task in client.stream(until_drained=True)]

        running = asyncio.ensure_future(run())
        await wanted(daemon, 16)
        drainer.drain()
        assert await running == []

    using(daemon, use)


def test_a_task_that_comes_after_it_was_told_goes_back(daemon: Daemon) -> None:
    Drainer(daemon, is_draining=True)

    async def use(client: AsyncClient) -> None:
        selecting = asyncio.ensure_future(client.select(1, timeout=60))
        await wanted(daemon, 1)
        daemon.hand_out(1)
        assert await released(daemon) == [1]
        selecting.cancel()

    using(daemon, use)


def test_who_is_resumed_takes_tasks_again(daemon: Daemon) -> None:
    drainer = Drainer(daemon, is_draining=True)

    async def use(client: AsyncClient) -> None:
        selecting = asyncio.ensure_future(client.select(1, timeout=60))
        assert await client.wait_drained()
        drainer.resume()
        await client._draining.taking.wait()
        daemon.hand_out(1)
        [task] = await selecting
        assert (task.token, await client.wait_drained(timeout=0)) == (1, False)

    using(daemon, use)


def test_the_blocking_client_is_drained_likewise(daemon: Daemon) -> None:
    drainer = Drainer(daemon)

    with Client(daemon.url) as client:
        assert not client.wait_drained(timeout=0)
        daemon.hear(Hello)
        drainer.drain()
        assert client.wait_drained()
        assert list(client.stream(until_drained=True)) == []


def test_only_the_welcome_of_the_last_hello_tells() -> None:
    session = ClientSession("s")
    frames = [session.frames(0.0)]
    session.say_hello()
    frames.append(session.frames(1.0))
    assert [len(each) for each in frames] == [1, 1]

    for n, draining in ((2, True), (1, False)):
        welcome = Welcome(n=n, epoch=1, fetcher_timeout=60.0, max_message=8 << 20, draining=draining)
        session.receive(encode(welcome), 2.0)
    assert session.draining


# ---------------------------------------------------------------------------------------- a worker


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the events in the worker's log."""
    found = re.findall(r"event=(draining|drained|resumed) name=(\w+)", caplog.text)
    return [" ".join(each) for each in found]


def test_a_drained_worker_finishes_what_runs_hands_back_the_rest_says_so_and_ends(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    drainer = Drainer(daemon)

    async def main() -> None:
        started, go_on = asyncio.Event(), asyncio.Event()

        async def handler(task: Task) -> None:
            started.set()
            await go_on.wait()

        worker = Worker(
            handler, client=daemon.url, concurrency=1, prefetch=2, name="w1", grace=0, exit_when_drained=True
        )
        serving = asyncio.ensure_future(worker.serve())
        await wanted(daemon, 3)
        daemon.hand_out(1, 2, 3)
        await started.wait()
        drainer.drain()
        assert await released(daemon) == [2, 3]
        go_on.set()
        done = await asyncio.to_thread(daemon.hear, Done)
        assert [item.token for item in done.tasks if item] == [Token(1)]
        await serving

    asyncio.run(main())
    assert lines(caplog) == ["draining w1", "drained w1"]


def test_a_drained_worker_waits_for_a_handler_whose_lease_has_ended(daemon: Daemon) -> None:
    drainer = Drainer(daemon)

    async def use(client: AsyncClient) -> None:
        started, go_on = asyncio.Event(), asyncio.Event()
        ended = []

        async def handler(task: Task) -> None:
            started.set()
            await go_on.wait()
            ended.append(task.token)

        worker = Worker(handler, client=client, concurrency=1, grace=0, overtime=1000, exit_when_drained=True)
        serving = asyncio.ensure_future(worker.serve())
        await wanted(daemon, 1)
        daemon.hand_out(1, timeout=1.0)
        await started.wait()
        drainer.ended = [1]
        drainer.drain()
        await client._draining.told.wait()
        assert not await client.wait_drained(timeout=0)
        go_on.set()
        await serving
        assert ended == [1]

    using(daemon, use)


def test_a_worker_that_does_not_end_waits_and_goes_on_when_it_is_resumed(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    drainer = Drainer(daemon, is_draining=True)

    async def main() -> None:
        async def handler(task: Task) -> None:
            pass

        async with AsyncClient(daemon.url, name="w2") as client:
            worker = Worker(handler, client=client, concurrency=1)
            serving = asyncio.ensure_future(worker.serve())
            await client.wait_drained()
            await wanted(daemon, 1)
            drainer.resume()
            await client._draining.taking.wait()
            daemon.hand_out(1)
            await asyncio.to_thread(daemon.hear, Done)
            worker.stop()
            await serving

    asyncio.run(main())
    assert lines(caplog) == ["draining w2", "drained w2", "resumed w2"]


def test_a_worker_that_starts_under_a_drained_name_ends_at_once(daemon: Daemon) -> None:
    Drainer(daemon, is_draining=True)

    async def handler(task: Task) -> None:
        pass

    asyncio.run(Worker(handler, client=daemon.url, exit_when_drained=True).serve())


def test_a_name_is_said_to_the_worker_or_to_its_client() -> None:
    with pytest.raises(ValueError, match="name: an AsyncClient has its own"):
        Worker(print, client=AsyncClient(), name="w1")
