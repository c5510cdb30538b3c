"""Loops that can't await crawl a site to its end with a real daemon, whatever happens to the daemon."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from taskqueue import AsyncClient, Client, Task
from tests.integration.nursery import WAIT_SECONDS

if TYPE_CHECKING:
    from tests.integration.conftest import Daemon, DaemonFactory


PAGES = 300


def links(url: str) -> list[str]:
    """Return the links of a page: two pages further on, the one before it, and the first."""
    number = int(url.rsplit("/", 1)[1])
    return [f"http://site/{n}" for n in (2 * number + 1, 2 * number + 2, number - 1, 0) if 0 <= n < PAGES]


@pytest.fixture
def it(daemon: DaemonFactory) -> Daemon:
    return daemon()


@pytest.fixture
def other(it: Daemon) -> Iterator[Client]:
    """Second client, beside the loop."""
    with Client(it.url, timeout=WAIT_SECONDS) as client:
        yield client


class Engine:
    """Crawler that acts only in callbacks of its loop, as frameworks do, and never awaits.

    Attributes:
        begun: number of starts by url.
        reports: futures of its reports.
    """

    def __init__(self, client: AsyncClient, *, on_page: Callable[[int], object] = lambda _: None) -> None:
        self.begun: Counter[str] = Counter()
        self.reports: list[asyncio.Future[Any]] = []
        self._client = client
        self._on_page = on_page
        self._loop = asyncio.get_running_loop()
        self._intake = client.intake(["site"], 8, on_arrival=self._begin_more)

    def _begin_more(self) -> None:
        while (task := self._intake.take_now()) is not None:
            self.begun[task.url] += 1
            self._loop.call_soon(self._downloaded, task)

    def _downloaded(self, task: Task) -> None:
        self._on_page(sum(self.begun.values()))
        for url in links(task.url):
            self._client.push_soon("site", url)
        self.reports.append(self._client.report_soon(task))
        self._begin_more()


def crawl(it: Daemon, other: Client, on_page: Callable[[int], object] = lambda _: None) -> Engine:
    """Run an engine until the project is finished, which another thread waits for."""
    other.projects.set("site", {"rate": inf})
    other.push("site", "http://site/0")
    loop = asyncio.new_event_loop()
    client = AsyncClient(it.url, timeout=inf)
    engines: list[Engine] = []
    loop.call_soon(lambda: engines.append(Engine(client, on_page=on_page)))
    try:
        with ThreadPoolExecutor(1) as waiter:
            finished = waiter.submit(other.projects.wait, "site", WAIT_SECONDS)
            finished.add_done_callback(lambda _: loop.call_soon_threadsafe(loop.stop))
            loop.run_forever()
        assert finished.result()
        loop.run_until_complete(client.settled())
    finally:
        loop.run_until_complete(client.close())
        loop.close()
    return engines[0]


def test_a_loop_of_callbacks_crawls_a_site_to_its_end_each_page_once(it: Daemon, other: Client) -> None:
    engine = crawl(it, other)

    assert engine.begun == Counter({f"http://site/{n}": 1 for n in range(PAGES)})
    assert {report.result().outcome for report in engine.reports} == {"done"}
    assert other.projects.get("site").counts.success == PAGES


def test_it_goes_on_through_kills_of_the_daemon_and_each_page_counts_once(it: Daemon, other: Client) -> None:
    kills = {20, 100, 200}

    def kill(begun: int) -> None:
        while kills and begun >= min(kills):
            kills.discard(min(kills))
            it.kill()
            it.start()

    engine = crawl(it, other, kill)

    outcomes = Counter(report.result().outcome for report in engine.reports)
    assert engine.begun.keys() == {f"http://site/{n}" for n in range(PAGES)}
    assert outcomes["done"] == PAGES
    assert outcomes["stale"] == sum(engine.begun.values()) - PAGES
    assert other.projects.get("site").counts.success == PAGES


def using(it: Daemon, use: Callable[[AsyncClient], Any]) -> None:
    async def main() -> None:
        async with AsyncClient(it.url, timeout=WAIT_SECONDS) as client:
            await use(client)

    asyncio.run(main())


async def until(fact: Callable[[], bool]) -> None:
    """Ask in a thread until it is true."""
    while not await asyncio.to_thread(fact):
        pass


def test_what_an_operator_cancels_while_it_waits_in_a_loop_is_not_handed_out(it: Daemon, other: Client) -> None:
    async def use(client: AsyncClient) -> None:
        arrived = asyncio.Event()
        intake = client.intake(["site"], 2, on_arrival=arrived.set)
        pages = [f"http://site/{n}" for n in range(2)]
        await asyncio.to_thread(other.push_many, "site", pages)
        await until(lambda: other.projects.get("site").counts.processing == 2)
        await arrived.wait()
        first = intake.take_now()
        assert first is not None
        taskids = [row.taskid for row in (await client.tasks.list("site", "processing")).items]
        await client.tasks.cancel("site", taskids)
        await first.cancelled
        assert intake.take_now() is None
        assert (await client.report_soon(first)).outcome == "stale"

    using(it, use)

    assert other.projects.get("site").counts.cancelled == 2


@pytest.mark.parametrize("how", ["closed", "no room"])
def test_what_was_not_taken_goes_back_and_what_was_is_still_run(it: Daemon, other: Client, how: str) -> None:
    other.push_many("site", [f"http://site/{n}" for n in range(5)])

    async def use(client: AsyncClient) -> None:
        arrived = asyncio.Event()
        intake = client.intake(["site"], 5, on_arrival=arrived.set)
        await until(lambda: other.projects.get("site").counts.processing == 5)
        await arrived.wait()
        task = intake.take_now()
        assert task is not None
        if how == "closed":
            intake.close()
        else:
            intake.room = 0
        await until(lambda: other.projects.get("site").counts.ready == 4)
        assert (await client.report_soon(task)).outcome == "done"

    using(it, use)

    counts = other.projects.get("site").counts
    assert (counts.ready, counts.success, counts.processing) == (4, 1, 0)
