"""A site that answers by a table, and both kinds of robots before it, which are asked in the same way."""

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
    """What is fetched, by its url: an answer, or what fetching it raises.

    Attributes:
        asked: how often each url was fetched.
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
        """A fetch function for Robots."""
        self.asked[url] += 1
        answer = self.answers.get(url, (404, b""))
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def fetch_async(self, url: str) -> Answer:
        """A fetch function for AsyncRobots."""
        return self.fetch(url)


class Slots:
    """Stands where ``client.slots`` of either client would.

    Attributes:
        told: what it was told.
        fails: what it raises instead.
    """

    def __init__(self) -> None:
        self.told: list[tuple[str, str, float]] = []
        self.fails: Exception | None = None

    def set(self, project: str, slot: str, *, delay: float) -> None:
        """As a blocking client has it."""
        if self.fails is not None:
            raise self.fails
        self.told.append((project, slot, delay))


class WaitingSlots:
    """These, as an asynchronous client has them."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots

    async def set(self, project: str, slot: str, *, delay: float) -> None:
        """Wait for it."""
        self._slots.set(project, slot, delay=delay)


class Waiting:
    """AsyncRobots, asked as Robots are: each call has an event loop of its own."""

    def __init__(self, robots: AsyncRobots) -> None:
        self._robots = robots

    def sitemap_tasks(self, *arguments: Any, **named: Any) -> list[NewTask]:
        """What the asynchronous generator gives."""

        async def all_of_them() -> list[NewTask]:
            return [task async for task in self._robots.sitemap_tasks(*arguments, **named)]

        return asyncio.run(all_of_them())

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *arguments, **named: asyncio.run(getattr(self._robots, name)(*arguments, **named))


class Clock:
    """The time, which goes on only when it is told to."""

    def __init__(self, frozen: Any) -> None:
        self._frozen = frozen

    def goes_on(self, seconds: float) -> None:
        """Let so many seconds pass."""
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
    """Makes robots of either kind, for the crawler "examplebot" unless told otherwise."""

    def make(agent: str = "examplebot", slots: Slots | None = None, **named: Any) -> Any:
        if request.param == "blocking":
            return Robots(site.fetch, agent, slots=slots, **named)
        told = None if slots is None else WaitingSlots(slots)
        return Waiting(AsyncRobots(site.fetch_async, agent, slots=told, **named))

    return make
