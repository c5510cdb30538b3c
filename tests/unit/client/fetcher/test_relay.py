"""Relay: when hellos report tasks that were passed on, and their most number."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from taskqueue.client.connection.session import ClientSession
from taskqueue.client.fetcher.leases import PASSED_MOST, Relay
from taskqueue.protocol.codec import encode
from taskqueue.protocol.fetchers import Select
from taskqueue.protocol.fields import Token
from taskqueue.protocol.values import Assignment

Tell = Callable[[Relay, asyncio.Queue[int]], Awaitable[None]]


def told(count: int, use: Tell) -> list[int]:
    """Return the number of passed on tasks at each hello; ``count`` have been dispatched."""

    async def main() -> list[int]:
        session = ClientSession("s")
        tasks = [Assignment("news", f"t{token}", "http://a/", Token(token), 60.0) for token in range(count)]
        session.receive(encode(Select(number=1, tasks=tasks)), 0.0)
        news: asyncio.Queue[int] = asyncio.Queue()
        seen: list[int] = []

        def restate() -> None:
            seen.append(session.passed)
            news.put_nowait(session.passed)

        relay = Relay(session, restate)
        await use(relay, news)
        relay.close()
        return seen

    return asyncio.run(main())


def test_the_first_task_is_told_at_once_and_those_that_follow_together() -> None:
    async def use(relay: Relay, news: asyncio.Queue[int]) -> None:
        for token in range(5):
            relay.pass_on([token])
        while await news.get() < 5:
            pass

    assert told(5, use) == [1, 5]


def test_what_is_not_reported_is_bounded_and_the_rest_keeps_its_room() -> None:
    async def use(relay: Relay, news: asyncio.Queue[int]) -> None:
        relay.pass_on(range(PASSED_MOST + 5))
        await news.get()
        await news.get()

    assert told(PASSED_MOST + 5, use) == [PASSED_MOST, PASSED_MOST]


def test_what_nobody_holds_is_not_told_as_passed_on() -> None:
    async def use(relay: Relay, news: asyncio.Queue[int]) -> None:
        relay.pass_on([7])

    assert told(3, use) == [0]
