"""A host that asks for a pause gets no more requests of a client that knows: judged by the host's own record."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final

import pytest

from taskqueue import AsyncClient, Retry, Task, Worker
from taskqueue.http import AsyncHttp
from tests.integration.conftest import WAIT_SECONDS, DaemonFactory
from tests.politeness.judging_site import BUSY, NAMED, REST_SECONDS, JudgingSite

PAGES: Final = (*BUSY, *NAMED)
"""Pages, those that refuse their first request first; the host's others are dispatched with them, each with its time.
"""

PACE: Final[dict[str, Any]] = {"slot": {"by": "host", "delay": 0.1, "max_processing": 16}}

http = AsyncHttp("examplebot/1.0 (+https://example.com/bot)", timeout=WAIT_SECONDS)


class Record:
    """A client's record of its own requests; times by ``time.monotonic``, as in the site's record.

    Attributes:
        begun: pairs of path and time, of each request.
        refused: path and time, when a refusal was known.
    """

    def __init__(self) -> None:
        self.begun: list[tuple[str, float]] = []
        self.refused: list[tuple[str, float]] = []

    async def fetch(self, task: Task) -> None:
        path = "/" + task.url.split("/", 3)[3]
        self.begun.append((path, time.monotonic()))
        try:
            await http.fetch(task)
        except Retry:
            self.refused.append((path, time.monotonic()))
            raise

    def complaints(self, site: JudgingSite) -> Iterator[str]:
        """Yield requests that were begun after a refusal was known, and came within its pause."""
        for path, known_at in self.refused:
            [refused] = [visit for visit in site.visits if visit.path == path and visit.status in (429, 503)]
            late = {begun for begun, at in self.begun if known_at < at < refused.answered_at + REST_SECONDS}
            for visit in site.visits:
                passed = visit.arrived_at - refused.answered_at
                if visit.path in late and 0 < passed < REST_SECONDS:
                    yield f"{visit.path}: {passed:.3f} s after the {refused.status} of {path}"


@pytest.fixture
def site() -> Iterator[JudgingSite]:
    it = JudgingSite()
    try:
        yield it
    finally:
        it.close()


async def by_worker(client: AsyncClient, record: Record, concurrency: int) -> None:
    """Run all tasks with a worker that has more of them waiting."""
    await Worker(
        record.fetch, ["news"], client=client, concurrency=concurrency, prefetch=16, until_finished=True
    ).serve()


async def by_stream(client: AsyncClient, record: Record, at_once: int) -> None:
    """Run all tasks with a loop over a stream, ``at_once`` at a time."""

    async def run(task: Task) -> None:
        try:
            await record.fetch(task)
        except Retry as retry:
            await client.failed(task, str(retry), retry_after=retry.after)
        else:
            await client.done(task)

    async def run_all(running: asyncio.TaskGroup) -> None:
        async for task in client.stream(["news"], places=16):
            if at_once == 1:
                await run(task)
            else:
                running.create_task(run(task))

    async with asyncio.TaskGroup() as running:
        all_of_them = running.create_task(run_all(running))
        while not await client.projects.wait("news", WAIT_SECONDS):
            pass
        all_of_them.cancel()


@pytest.mark.parametrize("at_once", [1, 4])
@pytest.mark.parametrize("way", [by_worker, by_stream])
def test_after_a_refusal_a_host_hears_nothing_more_of_the_client_that_has_heard_it(
    daemon: DaemonFactory,
    site: JudgingSite,
    way: Callable[[AsyncClient, Record, int], Coroutine[Any, Any, None]],
    at_once: int,
) -> None:
    record = Record()

    async def main() -> None:
        async with AsyncClient(daemon().url, timeout=WAIT_SECONDS) as client:
            await client.projects.set("news", PACE)
            await client.push_many("news", [f"{site.url}{path}" for path in PAGES])
            await way(client, record, at_once)

    asyncio.run(main())

    assert list(record.complaints(site)) == []
    assert {path for path, _ in record.refused} == set(BUSY)
    assert {visit.path for visit in site.visits} == set(PAGES)
