"""Priority of a client: the one that it states, and the order of its own consumers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from click.testing import CliRunner

from taskqueue import AsyncClient, Client, Task, Worker
from taskqueue.cli.commands import work as work_command
from taskqueue.protocol.fetchers import Hello
from tests.unit.client.conftest import Daemon


async def said(daemon: Daemon, capacity: int) -> int:
    """Return the priority of the next hello with that capacity."""
    while (hello := await asyncio.to_thread(daemon.hear, Hello)).capacity != capacity:
        pass
    return hello.priority


def using(daemon: Daemon, use: Callable[[AsyncClient], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        async with AsyncClient(daemon.url, timeout=20) as client:
            return await use(client)

    return asyncio.run(main())


async def handler(task: Task) -> None:
    """Do nothing."""


def test_select_says_its_priority(daemon: Daemon) -> None:
    async def use(client: AsyncClient) -> int:
        selecting = asyncio.ensure_future(client.select(2, priority=-5))
        priority = await said(daemon, 2)
        daemon.hand_out(1)
        await selecting
        return priority

    assert using(daemon, use) == -5


def test_a_stream_says_its_priority(daemon: Daemon) -> None:
    async def use(client: AsyncClient) -> int:
        tasks = client.stream(places=3, priority=2**31 - 1)
        first = asyncio.ensure_future(anext(tasks))
        priority = await said(daemon, 3)
        daemon.hand_out(1)
        await first
        await tasks.aclose()
        return priority

    assert using(daemon, use) == 2**31 - 1


@pytest.mark.parametrize("options", [{}, {"priority": 7}])
def test_a_worker_says_its_priority_which_is_0_by_default(daemon: Daemon, options: dict[str, int]) -> None:
    async def use(client: AsyncClient) -> int:
        worker = Worker(handler, client=client, concurrency=4, **options)  # type: ignore[arg-type]
        serving = asyncio.ensure_future(worker.serve())
        priority = await said(daemon, 4)
        worker.stop()
        await serving
        return priority

    assert using(daemon, use) == options.get("priority", 0)


def test_the_blocking_client_says_its_priority(daemon: Daemon) -> None:
    with ThreadPoolExecutor(1) as thread, Client(daemon.url) as client:
        selecting = thread.submit(client.select, 3, priority=4)
        while (hello := daemon.hear(Hello)).capacity != 3:
            pass
        daemon.hand_out(1)

        assert [task.token for task in selecting.result()] == [1]
        assert hello.priority == 4


def test_a_client_has_the_highest_priority_of_those_who_take_tasks_with_it_now(daemon: Daemon) -> None:
    async def use(client: AsyncClient) -> list[int]:
        first = asyncio.ensure_future(client.select(1, priority=1))
        alone = await said(daemon, 1)
        second = asyncio.ensure_future(client.select(2, priority=9))
        together = await said(daemon, 3)
        second.cancel()
        again = await said(daemon, 1)
        daemon.hand_out(1)
        await first
        return [alone, together, again]

    assert using(daemon, use) == [1, 9, 1]


def test_in_a_client_a_task_goes_to_whoever_waits_for_it_with_the_highest_priority(daemon: Daemon) -> None:
    async def use(client: AsyncClient) -> dict[str, list[str]]:
        wishes = {"low": (0, None), "best": (9, ["p"]), "equal": (9, None), "other": (99, ["q"])}
        got: dict[str, list[str]] = {}

        async def take(name: str, priority: int, projects: list[str] | None) -> None:
            got[name] = [task.taskid for task in await client.select(1, projects=projects, priority=priority)]

        taking = [asyncio.ensure_future(take(name, *wish)) for name, wish in wishes.items()]
        await said(daemon, 4)
        for token in range(1, 4):
            daemon.hand_out(token)
            await asyncio.wait(taking, return_when=asyncio.FIRST_COMPLETED)
            taking = [each for each in taking if not each.done()]
        for each in taking:
            each.cancel()
        return got

    assert using(daemon, use) == {"best": ["t1"], "equal": ["t2"], "low": ["t3"]}


@pytest.mark.parametrize("priority", [2**31, -(2**31) - 1, 1.5, "high", None])
def test_a_priority_that_can_not_be_is_told(daemon: Daemon, priority: Any) -> None:
    with pytest.raises(ValueError, match=r"priority: expected an integer from -2\^31 to 2\^31 - 1, got"):
        using(daemon, lambda client: client.select(1, priority=priority))
    with pytest.raises(ValueError, match=r"priority: expected an integer from -2\^31 to 2\^31 - 1, got"):
        Worker(handler, priority=priority)


def test_the_command_line_refuses_a_priority_that_can_not_be() -> None:
    refused = CliRunner().invoke(work_command.work, ["a:b", "--priority", str(2**31)])

    assert refused.exit_code == 2
    assert "'--priority': 2147483648 is not in the range" in refused.output
