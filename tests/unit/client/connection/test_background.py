"""Loop behind a blocking client: it runs its calls after any earlier error; a forked process has none."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from itertools import islice
from types import FrameType
from typing import Any

import pytest

from taskqueue.client.connection.background import Background
from tests.unit.client.conftest import WAIT_SECONDS, Daemon

FORKED = """
import os, sys
from math import inf
from taskqueue import Client, ClientClosed

with Client(sys.argv[1], timeout=inf) as client:
    client.push("p", "http://parent/")
    calls = {
        "push": lambda: client.push("p", "http://child/"),
        "push_many": lambda: client.push_many("p", ["http://child/"]),
        "select": lambda: client.select(1),
        "tasks": lambda: next(client.stream()),
        "project": lambda: client.projects.get("p"),
        "close": client.close,
    }
    child = os.fork()
    if child == 0:
        for name, call in calls.items():
            try:
                call()
            except ClientClosed as error:
                print(name, error, flush=True)
        with Client(sys.argv[1], timeout=20) as own:
            print(own.push("p", "http://own/"), flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    print(client.push("p", "http://parent/again"), flush=True)
"""
"""Program with a client, which forks a process that uses this client and then one of its own."""


ENDING = """
import sys
from taskqueue import Client, ClientClosed

class Spider:
    def __init__(self):
        self.client = Client(sys.argv[1], timeout=1000)
        self.client.push("p", "http://a/")

    def __del__(self):
        try:
            self.client.push("p", "http://last/")
        except ClientClosed as error:
            print(error, flush=True)
        self.client.close()

spider = Spider()
"""
"""Program whose last push comes while its interpreter ends."""


def test_a_push_while_the_program_ends_is_refused_and_waits_for_nothing(daemon: Daemon) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", ENDING, daemon.url], capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("the program is ending, so the client is closed")


def test_a_client_of_the_process_that_forked_says_so_at_once_and_stays_with_its_own(daemon: Daemon) -> None:
    # Newer Pythons warn of every fork beside threads.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED, daemon.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    said = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split()[0] for line in said] == ["push", "push_many", "select", "tasks", "project", "new", "new"]
    assert {line.partition("make a Client in each process")[1] for line in said[:5]} == {
        "make a Client in each process"
    }


@pytest.mark.parametrize("bad", [1, 3])
def test_what_fails_in_the_loop_keeps_nothing_else_from_being_done(bad: int) -> None:
    background = Background()
    gate, ran = threading.Event(), threading.Event()

    async def hold_up() -> None:
        gate.wait(WAIT_SECONDS)

    async def run() -> None:
        ran.set()

    async def close() -> None:
        pass

    background.start(hold_up())
    for _ in range(bad):
        background.start(NotACoroutine())  # type: ignore[arg-type]
    background.start(run())
    gate.set()

    assert ran.wait(WAIT_SECONDS)
    background.close(close())


@pytest.fixture
def background() -> Iterator[Background]:
    async def nothing() -> None:
        pass

    it = Background()
    yield it
    it.close(nothing())


@pytest.mark.parametrize("taken", [2, 5])
def test_a_generator_is_gone_through_as_far_as_it_is_wanted_and_closed(background: Background, taken: int) -> None:
    said: list[str] = []

    async def numbers() -> AsyncGenerator[int, None]:
        try:
            for n in range(3):
                yield n
        finally:
            said.append(threading.current_thread().name)

    with closing(background.iterate(numbers())) as items:
        found = list(islice(items, taken))

    assert found == list(range(min(taken, 3)))
    assert said == ["taskqueue-client"]


def test_a_ctrl_c_that_comes_while_the_loop_is_woken_leaves_nothing_running(background: Background) -> None:
    ended = []

    async def numbers() -> AsyncGenerator[int, None]:
        try:
            yield 1
            await asyncio.Event().wait()
            yield 2
        finally:
            ended.append(True)

    def interrupt(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_name == "_write_to_self":
            sys.setprofile(None)
            raise KeyboardInterrupt

    items = background.iterate(numbers())
    assert next(items) == 1
    sys.setprofile(interrupt)
    with pytest.raises(KeyboardInterrupt):
        next(items)

    assert ended == [True]
    assert background.call(lambda: "done") == "done"


def test_a_block_is_entered_and_left_in_the_loop_whatever_the_caller_raises(background: Background) -> None:
    said: list[str] = []

    @asynccontextmanager
    async def block() -> AsyncIterator[int]:
        said.append(threading.current_thread().name)
        yield 7
        said.append("left")

    def use() -> None:
        with background.within(block()) as entered:
            said.append(str(entered))
            raise KeyError

    with pytest.raises(KeyError):
        use()

    assert said == ["taskqueue-client", "7", "left"]


class NotACoroutine:
    """Value that no loop can run."""
