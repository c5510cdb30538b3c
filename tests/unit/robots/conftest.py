"""Site that answers by a table, and both kinds of robots before it, which are called in the same way."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from freezegun import freeze_time

from taskqueue import NewTask
from taskqueue.robots import AsyncRobots, Robots

Answer = tuple[int, bytes]


class Site:
    """Results of fetches by url: an answer, or an exception.

    Attributes:
        asked: number of fetches by url.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Answer | Exception] = {}
        self.asked: Counter[str] = Counter()

    def says(self, text: str | bytes, origin: str = "http://site.example", status: int = 200) -> None:
        """Let the robots.txt of an origin be this text."""
        self.answers[f"{origin}/robots.txt"] = (status, text if isinstance(text, bytes) else text.encode())

    def fails(self, how: int | Exception, origin: str = "http://site.example") -> None:
        """Let the robots.txt of an origin be answered by this status, or not at all."""
        self.answers[f"{origin}/robots.txt"] = how if isinstance(how, Exception) else (how, b"")

    def fetch(self, url: str) -> Answer:
        """Fetch a url, for Robots."""
        self.asked[url] += 1
        answer = self.answers.get(url, (404, b""))
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def fetch_async(self, url: str) -> Answer:
        """Fetch a url, for AsyncRobots."""
        return self.fetch(url)


class Slots:
    """Stand-in for ``client.slots`` of either client.

    Attributes:
        told: delays that were set.
        fails: exception that is raised instead.
    """

    def __init__(self) -> None:
        self.told: list[tuple[str, str, float]] = []
        self.fails: Exception | None = None

    def set(self, project: str, slot: str, *, delay: float) -> None:
        """Set a delay, as a blocking client does."""
        if self.fails is not None:
            raise self.fails
        self.told.append((project, slot, delay))


class WaitingSlots:
    """Slots of an asynchronous client."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots

    async def set(self, project: str, slot: str, *, delay: float) -> None:
        """Set a delay, as an asynchronous client does."""
        self._slots.set(project, slot, delay=delay)


class Waiting:
    """AsyncRobots with the methods of Robots: each call has an event loop of its own."""

    def __init__(self, robots: AsyncRobots) -> None:
        self._robots = robots

    def sitemap_tasks(self, *arguments: Any, **named: Any) -> list[NewTask]:
        """Collect the tasks of the asynchronous generator."""

        async def all_of_them() -> list[NewTask]:
            return [task async for task in self._robots.sitemap_tasks(*arguments, **named)]

        return asyncio.run(all_of_them())

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *arguments, **named: asyncio.run(getattr(self._robots, name)(*arguments, **named))


class Clock:
    """Clock that moves only on command."""

    def __init__(self, frozen: Any) -> None:
        self._frozen = frozen

    def goes_on(self, seconds: float) -> None:
        """Let this many seconds pass."""
        self._frozen.tick(seconds)


@pytest.fixture
def clock() -> Iterator[Clock]:
    with freeze_time("2026-11-22", real_asyncio=True) as frozen:
        yield Clock(frozen)


@pytest.fixture
def slots() -> Slots:
    return Slots()


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture(params=["blocking", "asyncio"])
def make(request: pytest.FixtureRequest, site: Site) -> Callable[..., Any]:
    """Make robots of either kind, by default for the crawler "examplebot"."""

    def make(agent: str = "examplebot", slots: Slots | None = None, **named: Any) -> Any:
        if request.param == "blocking":
            return Robots(site.fetch, agent, slots=slots, **named)
        told = None if slots is None else WaitingSlots(slots)
        return Waiting(AsyncRobots(site.fetch_async, agent, slots=told, **named))

    return make
