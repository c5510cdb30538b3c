"""Requests leave in the order of their calls, whenever a welcome or a reconnect comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taskqueue import MessageTooLarge
from taskqueue.client.connection.exchange import Exchange
from taskqueue.client.connection.session import REQUESTS_IN_FLIGHT, ClientSession
from taskqueue.client.tasks.new_task import new_task
from taskqueue.protocol.fetchers import Hello
from taskqueue.protocol.tasks import NewTasks, NewTasksReply
from tests.nightly import usually
from tests.unit.client.conftest import WAIT_SECONDS, Daemon, friendly

SIZES = st.integers(0, 90)
"""Sizes of groups of asks: some exceed the requests that a session may have in flight."""

MOMENTS = st.lists(st.tuples(st.integers(0, 6), SIZES), max_size=5)
"""Passes of the event loop after which further requests are made, and their number."""


class Asking:
    """Caller of many requests at once, numbered in the order of the calls."""

    def __init__(self, daemon: Daemon, when_heard: Callable[[Asking], None]) -> None:
        self.exchange = Exchange(
            daemon.url, ClientSession("s"), WAIT_SECONDS, lambda *_: None, lambda _: None, lambda: when_heard(self)
        )
        self.asked = 0
        self._numbers = count()
        self._asks: list[asyncio.Future[Any]] = []

    def ask(self, times: int) -> None:
        """Make ``count`` requests: asyncio tasks begin in the order of their creation."""
        self._asks += [asyncio.ensure_future(self._ask()) for _ in range(times)]

    def ask_at(self, moments: list[tuple[int, int]]) -> None:
        """Make requests in later passes of the loop, too."""
        self._asks.append(asyncio.ensure_future(self._ask_at(moments)))

    async def answered(self) -> None:
        """Wait for all answers."""
        while self._asks:
            waiting, self._asks = self._asks, []
            await asyncio.gather(*waiting)

    async def _ask(self) -> NewTasksReply:
        url = f"http://a/{next(self._numbers)}"
        message = NewTasks(project="p", tasks=[new_task(url)])
        return await self.exchange.ask(message)

    async def _ask_at(self, moments: list[tuple[int, int]]) -> None:
        for passes, times in moments:
            for _ in range(passes):
                await asyncio.sleep(0)
            self.ask(times)


def order_heard(daemon: Daemon) -> list[int]:
    """Return the numbers of the requests, in the order in which the daemon first received each."""
    tasks = [request.tasks[0] for request in daemon.heard if isinstance(request, NewTasks)]
    return list(dict.fromkeys(int(task.url.rpartition("/")[2]) for task in tasks if task is not None))


def assert_in_order(daemon: Daemon) -> None:
    heard = order_heard(daemon)
    assert heard == sorted(heard)


@settings(
    max_examples=usually(30, nightly=60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(before=SIZES, at_welcome=MOMENTS)
def test_asks_leave_in_the_order_of_their_calls_whenever_the_welcome_comes(
    daemon: Daemon, before: int, at_welcome: list[tuple[int, int]]
) -> None:
    async def main() -> None:
        moments = [at_welcome]
        asking = Asking(daemon, lambda it: it.ask_at(moments.pop()) if moments else None)
        asking.ask(before)
        await asking.exchange.ready()
        await asking.answered()
        await asking.exchange.close()

    daemon.heard.clear()
    asyncio.run(main())

    assert_in_order(daemon)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=SIZES, away=SIZES, at_reconnect=MOMENTS)
def test_asks_leave_in_the_order_of_their_calls_whenever_a_connection_is_made_anew(
    daemon: Daemon, before: int, away: int, at_reconnect: list[tuple[int, int]]
) -> None:
    async def main() -> None:
        asking = Asking(daemon, lambda it: it.ask_at(moments.pop()) if moments else None)
        moments: list[list[tuple[int, int]]] = []
        await asking.exchange.ready()
        asking.ask(before)
        await asyncio.to_thread(daemon.stop)
        asking.ask(away)
        moments.append(at_reconnect)
        asking.ask_at([(1, 1)] * 50)  # those are under way while the connection is made
        await asyncio.to_thread(daemon.start)
        await asking.answered()
        await asking.exchange.close()

    daemon.heard.clear()
    asyncio.run(main())

    assert_in_order(daemon)


def test_who_waits_behind_a_message_that_is_too_large_waits_for_nobody_else(daemon: Daemon) -> None:
    """All requests in flight are taken, and one answer makes room for one request."""
    daemon.script = lambda request: friendly(request) if isinstance(request, Hello) else []

    async def main() -> None:
        exchange = Exchange(daemon.url, ClientSession("s"), WAIT_SECONDS, lambda *_: None, lambda _: None, lambda: None)

        def ask(save: str) -> asyncio.Future[NewTasksReply]:
            request = NewTasks(project="p", tasks=[new_task("http://a/", save=save)])
            return asyncio.ensure_future(exchange.ask(request))

        await exchange.ready()
        filling = [ask("") for _ in range(REQUESTS_IN_FLIGHT)]
        heard = [await asyncio.to_thread(daemon.hear, NewTasks) for _ in filling]
        assert not exchange.is_free
        behind = [ask("x" * (9 << 20)), ask("small")]
        daemon.say(NewTasksReply(n=heard[0].n, outcomes=["new"]))

        with pytest.raises(MessageTooLarge):
            await behind[0]
        small = await asyncio.to_thread(daemon.hear, NewTasks)
        daemon.say(NewTasksReply(n=small.n, outcomes=["new"]))
        assert (await behind[1]).outcomes == ["new"]
        await exchange.close()
        await asyncio.gather(*filling, return_exceptions=True)

    asyncio.run(main())
