"""The rules of docs/reference/rules.md, one test each: what is pushed and reported, what is replied and dispatched.

``bring(world, "processing")`` makes a task "a" of the project news that is in that state, and the fetcher to go on
with: it had the task if anybody had it, takes one task at a time, and takes nothing until it says ``hello``.
"""

from __future__ import annotations

from typing import Any, Final

from tests.unit.core.conftest import Fetcher, World, task

MINUTE: Final = 60.0
HOUR: Final = 3600.0
DAY: Final = 86_400.0

LIVE: Final = ("ready", "delayed", "processing")
OVER: Final = ("success", "failed", "cancelled")
BACK_OFFS: Final = ("retry", "retry_after", "recrawl")

FORCE: Final[dict[str, Any]] = {"force_update": True}
CANCEL: Final[dict[str, Any]] = {"force_update": True, "cancel": True}

WAIT: Final = 100.0
"""Seconds for which the delayed task of ``bring`` waits."""


def bring(world: World, state: str, **schedule: Any) -> Fetcher:
    """A task "a" in this state, with the body "old"; see the module."""
    given = {"delay": WAIT} | schedule if state == "delayed" else schedule
    world.push("news", task("a", body="old", **given))
    fetcher = world.fetcher(capacity=0)
    fetcher.capacity = 1
    if state == "cancelled":
        world.push("news", task("a", **CANCEL))
    elif state in ("processing", "success", "failed"):
        fetcher.hello()
        rest(fetcher)
    if state in ("success", "failed"):
        assert fetcher.done("a", ok=state == "success", retry=False) == "done"
    return fetcher


def bring_back_off(world: World, why: str, seconds: float, **schedule: Any) -> Fetcher:
    """A task "a" that waits for so long because it failed, was told to, or has just been crawled."""
    if why == "recrawl":
        fetcher = bring(world, "processing", age=seconds, auto_recrawl=True, **schedule)
        fetcher.done("a")
    elif why == "retry_after":
        fetcher = bring(world, "processing", **schedule)
        fetcher.fail("a", retry_after=seconds)
    else:
        world.set(retry_delay=[seconds])
        fetcher = bring(world, "processing", **schedule)
        fetcher.fail("a")
    return fetcher


def rest(fetcher: Fetcher) -> None:
    """The fetcher goes on with what it holds and takes nothing more until it says hello."""
    fetcher.hello(capacity=0)


def run_out(world: World, fetcher: Fetcher, seconds: float = 600.0) -> None:
    """So much time passes, in which the fetcher is heard and takes nothing more."""
    end = world.elapsed + seconds
    while world.elapsed < end:
        rest(fetcher)
        world.advance(min(50.0, end - world.elapsed))
    rest(fetcher)


def comes_after(world: World, fetcher: Fetcher, seconds: float) -> bool:
    """Whether the fetcher is given a task when so many seconds have passed, and not one second earlier."""
    taken = len(fetcher.taken)
    if seconds:
        world.advance(seconds - 1)
        fetcher.hello()
        if len(fetcher.taken) > taken:
            return False
        world.advance(1)
    else:
        fetcher.hello()
    return len(fetcher.taken) > taken


def never_comes(world: World, fetcher: Fetcher) -> bool:
    """Whether the fetcher is given nothing, however long it waits."""
    taken = len(fetcher.taken)
    for _ in range(3):
        fetcher.hello()
        world.advance(100 * DAY)
    fetcher.hello()
    return len(fetcher.taken) == taken
