"""Interrupting a thread: it ends the current run, and nothing else."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from queue import SimpleQueue
from typing import Any

import pytest

from taskqueue import RunEnded
from taskqueue.client.worker.interruptible import Interruptible

RUNS = 10_000
LONGEST = 200
"""Additions of the longest run after its interruption is due: some runs end before it comes, and some do not."""


@pytest.fixture
def _threads_alternate() -> Iterator[None]:
    """Make Python switch threads some hundred times as often as usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_loop(test: Callable[[asyncio.Task[Any]], None]) -> None:
    """Call a function in a thread beside an event loop, with an asyncio task of that loop."""

    async def main() -> None:
        this = asyncio.current_task()
        assert this is not None
        await asyncio.to_thread(test, this)

    asyncio.run(main())


@contextmanager
def ending_each() -> Iterator[Callable[[Interruptible | None], None]]:
    """Thread that ends each run it gets, once."""
    begun: SimpleQueue[Interruptible | None] = SimpleQueue()

    def end_each() -> None:
        while (code := begun.get()) is not None:
            code.interrupt()

    thread = threading.Thread(target=end_each)
    thread.start()
    try:
        yield begun.put
    finally:
        begun.put(None)
        thread.join()


def count(numbers: int) -> int:
    total = 0
    for number in range(numbers):
        total += number
    return total


def short_run(end: Callable[[], None], number: int) -> None:
    end()
    count(number % LONGEST)


@pytest.mark.usefixtures("_threads_alternate")
def test_what_ends_a_run_never_hits_what_its_thread_does_next() -> None:
    outcomes = {"returned": 0, "ended": 0}

    def run_all(this: asyncio.Task[Any]) -> None:
        with ending_each() as end:
            for number in range(RUNS):
                code = Interruptible(this)
                try:
                    code.call(short_run, partial(end, code), number)
                    outcomes["returned"] += 1
                except RunEnded:
                    outcomes["ended"] += 1
                count(200)  # The next call, which must not raise.

    in_loop(run_all)

    assert sum(outcomes.values()) == RUNS
    assert outcomes["ended"] > 0


def at_event(number: int, act: Callable[[], None]) -> Callable[..., None]:
    """Profile function that acts at one of the calls and returns of its thread, where Python may switch threads."""
    left = number

    def profile(*event: object) -> None:
        nonlocal left
        left -= 1
        if left == -1:
            act()

    return profile


EVENTS = range(24)
"""More events than the calls and returns of an empty run."""


@pytest.mark.parametrize("number", EVENTS)
def test_wherever_a_run_is_when_it_is_ended_what_comes_next_is_not(number: int) -> None:
    def run(this: asyncio.Task[Any]) -> None:
        code = Interruptible(this)
        ending = threading.Thread(target=code.interrupt)

        def end() -> None:
            ending.start()
            ending.join(0.02)  # If it waits for this thread, it goes on later.

        sys.setprofile(at_event(number, end))
        with suppress(RunEnded):
            code.call(count, 0)
        sys.setprofile(None)
        if ending.ident is not None:
            ending.join()
        again = threading.Thread(target=code.interrupt, daemon=True)
        again.start()
        again.join(20)
        assert not again.is_alive()
        count(200)

    in_loop(run)


@pytest.mark.parametrize("number", range(8))
def test_wherever_the_one_is_that_ends_a_run_what_comes_after_the_run_is_not_ended(number: int) -> None:
    begun, go_on, ended, told = (threading.Event() for _ in range(4))

    def finish() -> None:
        begun.set()
        go_on.wait()

    def let_end() -> None:
        go_on.set()
        ended.wait(0.02)  # If it waits for this thread, it ends later.

    def run(this: asyncio.Task[Any]) -> None:
        code = Interruptible(this)
        went_on: list[bool] = []

        def run_and_go_on() -> None:
            with suppress(RunEnded):
                code.call(finish)
            ended.set()
            while not told.is_set():
                count(20)
            went_on.append(True)

        running = threading.Thread(target=run_and_go_on)
        running.start()
        begun.wait()
        sys.setprofile(at_event(number, let_end))
        code.interrupt()
        sys.setprofile(None)
        go_on.set()
        ended.wait()
        told.set()
        running.join()
        assert went_on == [True]

    in_loop(run)


def test_a_thread_that_is_profiled_goes_on_while_another_one_is_to_end_and_is_blocked() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def blocked() -> None:
        begun.set()
        go_on.wait()

    def run(this: asyncio.Task[Any]) -> None:
        code = Interruptible(this)
        with ThreadPoolExecutor() as threads:
            running = threads.submit(code.call, blocked)
            begun.wait()
            code.interrupt()
            sys.setprofile(lambda *event: None)
            count(1)
            sys.setprofile(None)
            go_on.set()
            assert isinstance(running.exception(), RunEnded)

    in_loop(run)


def test_a_run_that_has_ended_is_not_ended_again() -> None:
    def run(this: asyncio.Task[Any]) -> None:
        code = Interruptible(this)
        code.call(count, 1)
        code.interrupt()
        count(1000)

    in_loop(run)


def test_the_stack_shows_where_the_thread_is_below_what_called_the_handler() -> None:
    stacks: list[str] = []

    def run(this: asyncio.Task[Any]) -> None:
        code = Interruptible(this)
        code.call(lambda: stacks.append(code.stack()))
        stacks.append(code.stack())

    in_loop(run)

    assert "in run" in stacks[0]
    assert "in <lambda>" in stacks[0]
    assert stacks[1] == ""
