"""Leases that the daemon ends while their tasks wait in a client."""

from __future__ import annotations

import asyncio

from taskqueue import AsyncClient
from taskqueue.protocol.fetchers import Hello, HelloWanted
from tests.unit.client.conftest import Daemon
from tests.unit.client.fetcher.test_draining import Drainer, wanted


async def end_lease(said: Drainer, daemon: Daemon, token: int) -> None:
    """End the lease, and wait for a hello without it."""
    said.ended = [token]
    daemon.say(HelloWanted(epoch=1))
    while token not in (await asyncio.to_thread(daemon.hear, Hello)).holds:
        pass
    while token in (await asyncio.to_thread(daemon.hear, Hello)).holds:
        pass


def test_a_task_whose_lease_the_daemon_has_ended_is_not_started_any_more(daemon: Daemon) -> None:
    said = Drainer(daemon)

    async def main() -> list[int]:
        async with AsyncClient(daemon.url) as client:
            stream = client.stream(places=3)
            first = asyncio.ensure_future(anext(stream))
            await wanted(daemon, 3)
            daemon.hand_out(1, 2)
            taken: list[int] = [(await first).token]
            await end_lease(said, daemon, 2)
            daemon.hand_out(3)
            taken.append((await anext(stream)).token)
            await stream.aclose()
            return taken

    assert asyncio.run(main()) == [1, 3]


def test_an_early_task_whose_lease_the_daemon_has_ended_is_not_started_any_more(daemon: Daemon) -> None:
    said = Drainer(daemon)

    async def main() -> list[int]:
        async with AsyncClient(daemon.url) as client:
            stream = client.stream(places=2)
            first = asyncio.ensure_future(anext(stream))
            await wanted(daemon, 2)
            daemon.hand_out(1, not_before=1000.0)
            await end_lease(said, daemon, 1)
            daemon.hand_out(2)
            taken: list[int] = [(await first).token]
            await stream.aclose()
            return taken

    assert asyncio.run(main()) == [2]
