"""The rules of docs/reference/rules.md, one test each: what is pushed and reported, what is replied and dispatched.

``bring(world, "processing")`` makes a task "a" of the project news in that state, and returns the fetcher to continue
with: it had the task if a fetcher had it, takes one task at a time, and takes nothing until it says ``hello``.
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
    """Make a task "a" in this state, with the body "old"; see the module."""
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
    """Make a task "a" that waits for ``seconds`` because it failed, was put off, or has just been crawled."""
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
    """Let the fetcher keep its tasks and take no further one until it says hello."""
    fetcher.hello(capacity=0)


def run_out(world: World, fetcher: Fetcher, seconds: float = 600.0) -> None:
    """Let ``seconds`` pass, in which the fetcher is heard but takes no further task."""
    end = world.elapsed + seconds
    while world.elapsed < end:
        rest(fetcher)
        world.advance(min(50.0, end - world.elapsed))
    rest(fetcher)


def comes_after(world: World, fetcher: Fetcher, seconds: float) -> bool:
    """Whether the fetcher gets a task after ``seconds``, and not one second earlier."""
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
    """Whether the fetcher never gets a task."""
    taken = len(fetcher.taken)
    for _ in range(3):
        fetcher.hello()
        world.advance(100 * DAY)
    fetcher.hello()
    return len(fetcher.taken) == taken
