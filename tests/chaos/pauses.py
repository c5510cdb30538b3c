"""Pauses of clients when the store of a real daemon fails for a moment: ``make pauses``.

    .venv/bin/python -m tests.chaos.pauses                             each trouble, with 100 clients and with 5,000
    .venv/bin/python -m tests.chaos.pauses --clients 100 --rounds 1    fewer
    .venv/bin/python -m tests.chaos.pauses --write                     and put the table into docs/why/results.md

    trouble ─── store away ──► usable ──► read again ──► first answer ──► each client that waits has an answer
       └──────────────────────────── longest pause of a client ─────────────────────────────────►

Each client pushes a task, waits for the answer, and pauses before the next one. A hundred are ``AsyncClient``s;
thousands are the sessions of that client on sockets that share a context, because each client has threads of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import re
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from math import inf
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Final, NamedTuple, Protocol

import psycopg
import zmq

from taskqueue import AsyncClient
from taskqueue.client.connection.session import Answered, ClientSession
from taskqueue.protocol.tasks import NewTasks
from taskqueue.protocol.values import NewTask
from tests.chaos.failovers import Pair
from tests.integration.conftest import ROOT, Daemon
from tests.integration.small_disk import QuotaDisk, SmallDisk, may_mount, mounted
from tests.postgres import QUICK, Cluster

ROUNDS: Final = 3
CLIENTS: Final = (100, 5000)
REAL_MOST: Final = 200
"""Clients with a context each, at most; more clients are sessions that share one."""
CALLS_A_SECOND: Final = 500
"""Calls of all clients together."""
AWAY_SECONDS: Final = 2.0
"""Time for which the disk is full."""
SETTLE_SECONDS: Final = 2.0
WATCH_SECONDS: Final = 0.002
PROJECT: Final = "news"
FAILED: Final = "store-failed"
READ_AGAIN: Final = "store-read-again"

DOCUMENT: Final = ROOT / "docs" / "why" / "results.md"
TABLE: Final = re.compile(r"(?<=<!-- table: pauses -->\n).*?(?=<!-- end -->)", re.DOTALL)
HEAD: Final = (
    "| trouble | clients | store away | usable → read again | of it reading | → first answer | → each has an answer "
    "| longest pause |",
    "|---|---:|---:|---:|---:|---:|---:|---:|",
)


class Pausing(NamedTuple):
    """Cost of one trouble, in seconds.

    Attributes:
        away: time from the trouble until the store could be used again.
        found: time from then until the daemon had read it again.
        load: part of ``found`` spent on reading.
        first: time from then until any client had an answer.
        every: time from then until each waiting client had its answer.
        longest: longest wait of a client for an answer.
    """

    away: float
    found: float
    load: float
    first: float
    every: float
    longest: float


class Pusher(Protocol):
    """Part of a client that is used here."""

    async def push(self, project: str, url: str) -> object:
        """Push a task, and wait for the answer."""


class Caller:
    """Client with the times of its calls and answers.

    Attributes:
        asked_at: time of the call without an answer; inf if there is none.
        answers: times of each call and its answer.
    """

    def __init__(self, client: Pusher, name: str, pause: float) -> None:
        self.asked_at = inf
        self.answers: list[tuple[float, float]] = []
        self._client = client
        self._name = name
        self._pause = pause

    async def run(self, chance: Random) -> None:
        """Push tasks until it is cancelled."""
        number = 0
        await asyncio.sleep(chance.uniform(0.0, self._pause))
        while True:
            self.asked_at = monotonic()
            await self._client.push(PROJECT, f"http://site/{self._name}/{number}")
            self.answers.append((self.asked_at, monotonic()))
            self.asked_at = inf
            number += 1
            await asyncio.sleep(chance.uniform(0.5, 1.5) * self._pause)


class SharingClient:
    """Session of the client on a socket of a context that thousands share."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], url: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._session = ClientSession(secrets.token_hex(16))
        self._answers: dict[int, asyncio.Future[object]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._socket = context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.connect(url)
        self._loop.add_reader(self._socket.FD, self._read)
        self._pump()

    async def push(self, project: str, url: str) -> object:
        """Push a task, and wait for the answer."""
        n = self._session.submit(NewTasks(project=project, tasks=[NewTask(url[-128:], url)]))
        answer = self._answers[n] = self._loop.create_future()
        self._pump()
        return await answer

    def close(self) -> None:
        """Close the socket."""
        self._loop.remove_reader(self._socket.FD)
        if self._timer is not None:
            self._timer.cancel()
        self._socket.close()

    def _pump(self) -> None:
        for frame in self._session.frames(self._loop.time()):
            self._socket.send(frame)
        if self._timer is not None:
            self._timer.cancel()
        at = self._session.next_at()
        self._timer = None if at == inf else self._loop.call_at(at, self._pump)
        self._read()

    def _read(self) -> None:
        heard = False
        with suppress(zmq.Again):
            while True:
                event = self._session.receive(self._socket.recv(zmq.DONTWAIT), self._loop.time())
                heard = True
                if isinstance(event, Answered) and not self._answers[event.n].done():
                    self._answers.pop(event.n).set_result(event.reply)
        if heard:
            self._pump()


@asynccontextmanager
async def callers_of(url: str, count: int) -> AsyncIterator[list[Caller]]:
    """Start ``count`` clients, each of which has had an answer."""
    async with AsyncExitStack() as stack:
        chance, pause = Random(1), count / CALLS_A_SECOND
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        stack.callback(context.term)
        context.set(zmq.MAX_SOCKETS, count + 100)
        callers = []
        for number in range(count):
            client: Pusher
            if count <= REAL_MOST:
                client = await stack.enter_async_context(AsyncClient(url, timeout=inf))
            else:
                client = SharingClient(context, url)
                stack.callback(client.close)
            callers.append(Caller(client, f"c{number}", pause))
        tasks = [asyncio.create_task(caller.run(chance)) for caller in callers]
        try:
            await _until(lambda: all(caller.answers for caller in callers))
            yield callers
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _until(condition: Callable[[], bool]) -> None:
    """Poll a condition: other processes, or thousands of clients, make it true."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(WATCH_SECONDS)


# ---------------------------------------------------------------------------------------- troubles


class Scene(NamedTuple):
    """Daemon and a trouble of its store.

    Attributes:
        befall: called in a thread; returns the times of the trouble, and of the store being usable again.
        prepare: called before each trouble.
    """

    daemon: Daemon
    befall: Callable[[], tuple[float, float]]
    prepare: Callable[[], None] = lambda: None


def _usable_at(url: str) -> float:
    """Wait until the database takes a connection that can write; return the time."""
    while True:
        with suppress(psycopg.Error), psycopg.connect(url, target_session_attrs="read-write", connect_timeout=2):
            return monotonic()
        sleep(WATCH_SECONDS)


@contextmanager
def terminated_backends(folder: Path) -> Iterator[Scene]:
    """End the daemon's connections on the server, as an operator or a firewall may."""
    server = Cluster(*QUICK)
    daemon = Daemon(folder, url=server.url).start()

    def befall() -> tuple[float, float]:
        began_at = monotonic()
        server.run("select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'taskqueue%'")
        return began_at, monotonic()

    try:
        yield Scene(daemon, befall)
    finally:
        daemon.kill()
        server.stop()


@contextmanager
def restarted_server(folder: Path) -> Iterator[Scene]:
    """Kill (-9) and restart the server."""
    server = Cluster(*QUICK)
    daemon = Daemon(folder, url=server.url).start()

    def befall() -> tuple[float, float]:
        began_at = monotonic()
        server.signal(signal.SIGKILL)
        server.start()
        return began_at, _usable_at(server.url)

    try:
        yield Scene(daemon, befall)
    finally:
        daemon.kill()
        server.stop()


@contextmanager
def failover(folder: Path) -> Iterator[Scene]:
    """Kill (-9) the primary, and promote its synchronous standby."""
    pair = Pair()
    daemon = Daemon(folder, url=pair.url, timeout=5).start()
    rounds: list[None] = []

    def prepare() -> None:
        if rounds:
            pair.follow()
        rounds.append(None)
        pair.wait_for_standby(synchronous=True)

    def befall() -> tuple[float, float]:
        began_at = monotonic()
        pair.fail_over()
        return began_at, _usable_at(pair.url)

    try:
        yield Scene(daemon, befall, prepare)
    finally:
        daemon.kill()
        pair.stop()


@contextmanager
def full_disk(folder: Path) -> Iterator[Scene]:
    """Fill the disk of a store in a folder, as another program would, and make room again."""
    place = folder / "disk"
    place.mkdir()
    with _disk(place) as disk:
        daemon = Daemon(folder, entry=disk.entry, path=str(disk.store_path), min_free=0).start()

        def befall() -> tuple[float, float]:
            times = daemon.log().count(FAILED)
            disk.fill()
            while daemon.log().count(FAILED) == times:
                sleep(WATCH_SECONDS)
            began_at = monotonic()
            sleep(AWAY_SECONDS)
            disk.make_room()
            return began_at, monotonic()

        try:
            yield Scene(daemon, befall)
        finally:
            daemon.kill()


@contextmanager
def _disk(folder: Path) -> Iterator[SmallDisk | QuotaDisk]:
    if not may_mount():
        yield QuotaDisk(folder)
        return
    with mounted(folder):
        yield SmallDisk(folder)


TROUBLES: Final[dict[str, Callable[[Path], AbstractContextManager[Scene]]]] = {
    "terminated backends": terminated_backends,
    "server killed and restarted": restarted_server,
    "failover to a synchronous standby": failover,
    "full disk, of a store in a folder": full_disk,
}


# ---------------------------------------------------------------------------------------- measuring


async def play(trouble: Callable[[Path], AbstractContextManager[Scene]], clients: int, rounds: int) -> list[Pausing]:
    """Play a trouble ``rounds`` times; return the cost of each."""
    with TemporaryDirectory(prefix="pauses-") as folder, trouble(Path(folder)) as scene:
        async with callers_of(scene.daemon.url, clients) as callers:
            return [await _measured(scene, callers) for _ in range(rounds)]


async def _measured(scene: Scene, callers: Sequence[Caller]) -> Pausing:
    await asyncio.to_thread(scene.prepare)
    await asyncio.sleep(SETTLE_SECONDS)
    times = scene.daemon.log().count(READ_AGAIN)
    reading = asyncio.create_task(_until(lambda: scene.daemon.log().count(READ_AGAIN) > times))
    reading.add_done_callback(lambda _: moments.append(monotonic()))
    moments: list[float] = []
    began_at, usable_at = await asyncio.to_thread(scene.befall)
    await reading
    (read_at,) = moments
    waiting = {caller: caller.asked_at for caller in callers if caller.asked_at <= read_at}
    await _until(lambda: all(caller.asked_at != asked_at for caller, asked_at in waiting.items()))
    answers = [_answer(caller, asked_at) for caller, asked_at in waiting.items()]
    after = [at for caller in callers for _, at in caller.answers if at >= read_at]
    loads = re.findall(r"load_seconds=([\d.]+)", scene.daemon.log())
    return Pausing(
        away=usable_at - began_at,
        found=max(0.0, read_at - usable_at),
        load=float(loads[-1]) if loads else 0.0,
        first=min(after) - read_at,
        every=max((at for _, at in answers), default=read_at) - read_at,
        longest=max(at - asked_at for caller in callers for asked_at, at in caller.answers if at >= began_at),
    )


def _answer(caller: Caller, asked_at: float) -> tuple[float, float]:
    return next(answer for answer in reversed(caller.answers) if answer[0] == asked_at)


def main() -> int:
    """Print the table; return the process's exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.pauses")
    parser.add_argument("troubles", nargs="*", help=f"some of {', '.join(map(repr, TROUBLES))}; default: all")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds of each trouble (%(default)s)")
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS, help="numbers of clients (%(default)s)")
    parser.add_argument("--write", action="store_true", help="write the table into docs/why/results.md")
    told = parser.parse_args()
    logging.getLogger("taskqueue.client").setLevel(logging.ERROR)
    print("\n".join(HEAD), flush=True)
    rows = []
    for name in told.troubles or TROUBLES:
        for clients in told.clients:
            rows.append(_row(name, clients, asyncio.run(play(TROUBLES[name], clients, told.rounds))))
            print(rows[-1], flush=True)
    if told.write:
        DOCUMENT.write_text(TABLE.sub("".join(f"{line}\n" for line in (*HEAD, *rows)), DOCUMENT.read_text()))
    return 0


def _row(name: str, clients: int, rounds: Sequence[Pausing]) -> str:
    """Format the worst of all rounds, column by column."""
    worst = [max(column) for column in zip(*rounds, strict=True)]
    return f"| {name} | {clients:,} | " + " | ".join(f"{seconds:.2f} s" for seconds in worst) + " |"


if __name__ == "__main__":
    sys.exit(main())
