"""A single subscription for all watchers of projects: of a real daemon, which changes, dies and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from taskqueue import AsyncClient
from taskqueue.web.live.projects import ProjectPulses
from tests.integration.conftest import WAIT_SECONDS, DaemonFactory


async def until(pulses: ProjectPulses, holds: Callable[[dict[str, str]], bool]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not holds({name: pulse.state for name, pulse in (await pulses.now()).items()}):
            await pulses.after(pulses.version)


def test_who_follows_is_told_of_what_is_made_changed_and_deleted(daemon: DaemonFactory) -> None:
    async def play(url: str) -> None:
        async with AsyncClient(url) as client, AsyncClient(url) as watching:
            pulses = ProjectPulses(watching)
            pulses.follow()
            assert dict(await pulses.now()) == {}
            await client.projects.start("news")
            await until(pulses, lambda states: states == {"news": "running"})
            await client.projects.pause("news")
            await until(pulses, lambda states: states == {"news": "paused"})
            await client.projects.delete("news")
            await until(pulses, lambda states: states == {})
            await pulses.aclose()

    asyncio.run(play(daemon().url))


def test_who_asks_now_and_then_is_told_how_projects_are_then(daemon: DaemonFactory) -> None:
    async def play(url: str) -> None:
        async with AsyncClient(url) as client, AsyncClient(url) as watching:
            pulses = ProjectPulses(watching)
            await client.projects.start("news")
            assert set(await pulses.now()) == {"news"}
            await client.projects.start("shop")
            assert set(await pulses.now()) == {"news", "shop"}

    asyncio.run(play(daemon().url))


def test_a_daemon_that_was_started_again_is_followed_anew(daemon: DaemonFactory) -> None:
    it = daemon()

    async def play() -> None:
        async with AsyncClient(it.url, timeout=WAIT_SECONDS) as client, AsyncClient(it.url, timeout=1.0) as watching:
            pulses = ProjectPulses(watching)
            await client.projects.start("news")
            pulses.follow()
            await until(pulses, lambda states: states == {"news": "running"})
            await asyncio.to_thread(it.kill)
            await asyncio.to_thread(it.start)
            await client.projects.stop("news")
            await until(pulses, lambda states: states == {"news": "stopped"})
            await pulses.aclose()

    asyncio.run(play())


def test_what_was_deleted_before_the_daemon_was_started_again_is_seen_no_more(daemon: DaemonFactory) -> None:
    it = daemon()

    async def play() -> None:
        async with AsyncClient(it.url, timeout=WAIT_SECONDS) as client, AsyncClient(it.url) as watching:
            pulses = ProjectPulses(watching)
            await client.projects.start("news")
            await client.projects.start("shop")
            assert set(await pulses.now()) == {"news", "shop"}
            await client.projects.delete("shop")
            await asyncio.to_thread(it.kill)
            await asyncio.to_thread(it.start)
            assert set(await pulses.now()) == {"news"}

    asyncio.run(play())
