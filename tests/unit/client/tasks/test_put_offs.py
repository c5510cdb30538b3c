"""Tasks that wait in a client while another one of their slot puts the slot off: they go back, and are not begun."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import pytest

from taskqueue import AsyncClient, Client, Retry, Task, Worker
from taskqueue.protocol.fetchers import Hello, HelloWanted, Release
from taskqueue.protocol.messages import AnyOutgoing, AnyRequest
from taskqueue.protocol.tasks import Done
from tests.unit.client.conftest import WAIT_SECONDS, Daemon, friendly
from tests.unit.client.fetcher.test_draining import Drainer, wanted

SOON: dict[str, Any] = {"slot": "a", "start_within": 100.0}
EARLY: dict[str, Any] = {**SOON, "not_before": 100.0}

Stream = AsyncGenerator[Task, None]


@asynccontextmanager
async def streaming(client: AsyncClient, daemon: Daemon, **fields: Any) -> AsyncGenerator[tuple[Stream, Task], None]:
    """Make a stream, and take its first task, which is of slot a."""
    stream = client.stream(places=16)
    taking = asyncio.ensure_future(anext(stream))
    await wanted(daemon, 16)
    daemon.hand_out(1, **{**SOON, **fields})
    yield stream, await taking
    await stream.aclose()


async def arrived(client: AsyncClient) -> None:
    """Wait until the client has the tasks dispatched before, in up to three messages.

    The double may answer first, and then send one of its messages.
    """
    for _ in range(4):
        await client.push("p", "http://a/")


async def released(daemon: Daemon) -> list[int]:
    return [lease.token for lease in (await asyncio.to_thread(daemon.hear, Release)).leases]


PUTTING_OFF: list[dict[str, Any]] = [
    {"status_code": 429, "headers": {"Retry-After": "5"}},
    {"status_code": 429},
    {"status_code": 503},
    {"error_kind": "connection"},
    {"retry_after": 5.0},
]


@pytest.mark.parametrize("fields", [SOON, EARLY, {"slot": "a"}], ids=["soon", "early", "unpaced"])
@pytest.mark.parametrize("facts", PUTTING_OFF, ids=str)
def test_what_waits_of_a_slot_goes_back_right_after_the_report_that_puts_it_off(
    daemon: Daemon, facts: dict[str, Any], fields: dict[str, Any]
) -> None:
    async def main() -> tuple[list[int], int]:
        async with AsyncClient(daemon.url) as client, streaming(client, daemon) as (stream, task):
            daemon.hand_out(2, 3, **fields)
            daemon.hand_out(4, slot="b")
            await arrived(client)
            await client.failed(task, **facts)
            return await released(daemon), (await anext(stream)).token

    assert asyncio.run(main()) == ([2, 3], 4)
    assert [type(each) for each in daemon.heard if isinstance(each, Done | Release)][:2] == [Done, Release]


@pytest.mark.parametrize("facts", [{}, {"status_code": 500}, {"status_code": 404}, {"error_kind": "timeout"}], ids=str)
def test_what_waits_of_a_slot_stays_after_any_other_report(daemon: Daemon, facts: dict[str, Any]) -> None:
    async def main() -> list[int]:
        async with AsyncClient(daemon.url) as client, streaming(client, daemon) as (stream, task):
            daemon.hand_out(2, 3, **SOON)
            await arrived(client)
            await client.failed(task, **facts)
            return [(await anext(stream)).token, (await anext(stream)).token]

    assert asyncio.run(main()) == [2, 3]


@pytest.mark.parametrize("facts", [{"status_code": 429}, {"headers": {"Retry-After": "5"}}], ids=str)
def test_a_success_may_put_a_slot_off_too(daemon: Daemon, facts: dict[str, Any]) -> None:
    async def main() -> list[int]:
        async with AsyncClient(daemon.url) as client, streaming(client, daemon) as (_, task):
            daemon.hand_out(2, **EARLY)
            await arrived(client)
            await client.done(task, **facts)
            return await released(daemon)

    assert asyncio.run(main()) == [2]


def test_a_slot_of_another_project_has_nothing_to_do_with_it(daemon: Daemon) -> None:
    async def main() -> int:
        async with AsyncClient(daemon.url) as client, streaming(client, daemon) as (stream, task):
            daemon.hand_out(2, **SOON)
            await arrived(client)
            task.project = "q"
            await client.failed(task, status_code=429)
            return (await anext(stream)).token

    assert asyncio.run(main()) == 2


def test_nothing_of_the_slot_is_begun_before_the_report_is_answered_and_what_comes_then_is(daemon: Daemon) -> None:
    """Until then the daemon may have dispatched more, because it did not know."""

    async def main() -> list[int]:
        async with AsyncClient(daemon.url) as client, streaming(client, daemon) as (stream, task):
            daemon.script = lambda request: [] if isinstance(request, Done) else friendly(request)
            reporting = asyncio.ensure_future(client.failed(task, status_code=429))
            done = await asyncio.to_thread(daemon.hear, Done)
            daemon.hand_out(2, **SOON)
            daemon.hand_out(3, slot="b")
            assert (await anext(stream)).token == 3
            assert not any(isinstance(request, Release) for request in daemon.heard)
            for reply in friendly(done):
                daemon.say(reply)
            await reporting
            daemon.hand_out(4, **SOON)
            assert (await anext(stream)).token == 4
            return await released(daemon)

    assert asyncio.run(main()) == [2]


def test_a_failure_that_is_said_soon_puts_its_slot_off_whatever_came_out_of_it(daemon: Daemon) -> None:
    async def main() -> list[int]:
        async with AsyncClient(daemon.url) as client, streaming(client, daemon) as (_, task):
            daemon.hand_out(2, **SOON)
            await arrived(client)
            client.report_soon(task, ["http://a/1"], error="busy", after=5.0)
            return await released(daemon)

    assert asyncio.run(main()) == [2]


def test_what_a_task_has_heard_holds_its_slot_back_until_it_hears_better(daemon: Daemon) -> None:
    async def main() -> list[int]:
        async with AsyncClient(daemon.url) as client, streaming(client, daemon) as (stream, task):
            daemon.hand_out(2, **SOON)
            daemon.hand_out(3, slot="b")
            await arrived(client)
            task.fetched(429)
            taken = [(await anext(stream)).token]
            task.fetched(200)
            return [*taken, (await anext(stream)).token]

    assert asyncio.run(main()) == [3, 2]
    assert not any(isinstance(request, Release) and request.leases[0].token == 2 for request in daemon.heard)


@pytest.mark.parametrize("end", ["better", "better in a thread", "released"])
def test_whoever_sleeps_as_only_put_off_tasks_wait_goes_on_when_the_last_that_puts_off_says_otherwise(
    daemon: Daemon, end: str
) -> None:
    async def main() -> int:
        async with AsyncClient(daemon.url) as client, streaming(client, daemon) as (stream, task):
            daemon.hand_out(2, **SOON)
            await arrived(client)
            task.fetched(429)
            taking = asyncio.ensure_future(anext(stream))
            await arrived(client)
            assert not taking.done()
            if end == "better":
                task.fetched(200)
            elif end == "released":
                await client.release(task)
            else:
                await asyncio.to_thread(task.fetched, 200)
            return (await asyncio.wait_for(taking, WAIT_SECONDS)).token

    assert asyncio.run(main()) == 2


@pytest.mark.parametrize("late", [False, True])
def test_a_lease_that_has_ended_without_a_report_holds_nothing_back(daemon: Daemon, late: bool) -> None:
    said = Drainer(daemon)

    async def main() -> int:
        async with AsyncClient(daemon.url) as client, streaming(client, daemon) as (stream, task):
            if not late:
                task.fetched(429)
            daemon.hand_out(2, **SOON)
            taking = asyncio.ensure_future(anext(stream)) if not late else None
            await arrived(client)
            said.ended = [1]
            daemon.say(HelloWanted(epoch=1))
            await asyncio.wait_for(task.lost, WAIT_SECONDS)
            if late:
                task.fetched(429)
            return (await (taking or anext(stream))).token

    assert asyncio.run(main()) == 2


def test_a_report_that_is_refused_has_put_nothing_off_and_holds_back_until_the_next_one(daemon: Daemon) -> None:
    refused = 0

    def script(request: AnyRequest) -> list[AnyOutgoing]:
        nonlocal refused
        replies = friendly(request)
        if isinstance(request, Done) and not refused:
            refused = 1
            replies[0].outcomes = ["rejected"]  # type: ignore[union-attr]
        return replies

    async def main() -> int:
        async with AsyncClient(daemon.url) as client, streaming(client, daemon) as (stream, task):
            daemon.script = script
            with pytest.raises(Exception, match="rejected"):
                await client.failed(task, retry_after=5.0)
            daemon.hand_out(2, **SOON)
            daemon.hand_out(3, slot="b")
            assert (await anext(stream)).token == 3
            await client.failed(task)
            return (await anext(stream)).token

    assert asyncio.run(main()) == 2


def raised(task: Task) -> None:
    raise Retry(5, status_code=429)


def connecting(task: Task) -> None:
    raise ConnectionRefusedError


def returned(task: Task) -> None:
    task.fetched(429)


async def awaited(task: Task) -> None:
    raised(task)


@pytest.mark.parametrize("ends", [raised, connecting, returned, awaited])
def test_a_worker_hands_back_what_waits_of_a_slot_that_its_handler_puts_off(
    daemon: Daemon, ends: Callable[[Task], Awaitable[None] | None]
) -> None:
    run: list[int] = []

    def handler(task: Task) -> Any:
        run.append(task.token)
        return ends(task) if task.token == 1 else None

    async def main() -> list[int]:
        worker = Worker(handler, client=daemon.url, concurrency=1, prefetch=2)
        serving = asyncio.ensure_future(worker.serve())
        await wanted(daemon, 3)
        daemon.hand_out(2, **EARLY)
        daemon.hand_out(1, **SOON)
        back = await released(daemon)
        worker.stop()
        await serving
        return back

    assert asyncio.run(main()) == [2]
    assert run == [1]


def test_a_thread_that_reports_puts_the_slot_off(daemon: Daemon) -> None:
    def hand_out() -> None:
        while daemon.hear(Hello).capacity != 16:
            pass
        daemon.hand_out(1, **SOON)
        daemon.hand_out(2, **EARLY)

    with Client(daemon.url) as client, ThreadPoolExecutor(1) as threads:
        handing = threads.submit(hand_out)
        for task in client.stream(places=16):
            handing.result()
            for _ in range(4):  # As in ``arrived``.
                client.push("p", "http://a/")
            client.failed(task, status_code=429)
            assert [lease.token for lease in daemon.hear(Release).leases] == [2]
            break

    assert [type(each) for each in daemon.heard if isinstance(each, Done | Release)] == [Done, Release]
