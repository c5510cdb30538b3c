"""Connection of a client: which addresses it tries, what leaves first on a new one, and how much it accepts."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from typing import TypeVar

import pytest

from taskqueue import AsyncClient, RequestTimeout
from taskqueue.client.connection.addresses import REFUSED
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.fetchers import Hello, Welcome
from taskqueue.protocol.messages import AnyOutgoing, AnyRequest
from taskqueue.protocol.tasks import NewTasks, NewTasksReply
from tests.unit.client.conftest import WAIT_SECONDS, Daemon, LeapingLoop, friendly, run_leaping

T = TypeVar("T")

LONG = "x" * (20 << 20)
"""Bytes beyond the limit of a client whose daemon names no larger ``max_message`` than the default."""


@contextmanager
def another(daemon: Daemon, host: str) -> Iterator[Daemon]:
    """Start a daemon at the same port of another address."""
    it = Daemon(f"tcp://{host}:{port_of(daemon)}")
    try:
        yield it
    finally:
        it.stop()


def port_of(daemon: Daemon) -> int:
    return int(daemon.url.rpartition(":")[2])


class Names:
    """Resolver of a machine on which ``db.test`` stands for the addresses that a test names."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.hosts: list[str] = []
        self._find = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self._look_up)

    def _look_up(self, host: str, port: int, **options: int) -> list[object]:
        assert host == "db.test"
        if not self.hosts:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [each for host in self.hosts for each in self._find(host, port, **options)]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    return Names(monkeypatch)


def using(url: str, use: Callable[[AsyncClient], Awaitable[T]], timeout: float = WAIT_SECONDS) -> T:
    async def main() -> T:
        async with AsyncClient(url, timeout=timeout) as client:
            return await use(client)

    return asyncio.run(main())


# ---------------------------------------------------------------------------------------- addresses


@pytest.mark.parametrize("hosts", [["::1", "127.0.0.1"], ["127.0.0.2", "127.0.0.1"], ["127.0.0.1", "::1"]])
def test_the_addresses_of_a_name_are_tried_in_turn(daemon: Daemon, names: Names, hosts: list[str]) -> None:
    names.hosts = hosts

    assert using(f"tcp://db.test:{port_of(daemon)}", lambda client: client.push("p", "http://a/")) == "new"


def test_an_address_where_nobody_says_anything_is_left_for_the_next(daemon: Daemon, names: Names) -> None:
    names.hosts = ["127.0.0.2", "127.0.0.1"]

    async def main(loop: LeapingLoop) -> str:
        with closing(socket.create_server(("127.0.0.2", port_of(daemon)))) as mute:
            async with AsyncClient(f"tcp://db.test:{port_of(daemon)}", timeout=600) as client:
                pushing = asyncio.ensure_future(client.push("p", "http://a/"))
                taken, _ = await asyncio.to_thread(mute.accept)
                loop.leap(2.1)
                with closing(taken):
                    return await pushing

    assert run_leaping(main) == "new"


def test_a_name_is_looked_up_anew_when_its_daemon_is_lost(daemon: Daemon, names: Names) -> None:
    names.hosts = ["127.0.0.1"]

    async def use(client: AsyncClient) -> str:
        await client.push("p", "http://a/")
        with another(daemon, "127.0.0.2") as standby:
            names.hosts = ["127.0.0.2"]
            await asyncio.to_thread(daemon.stop)
            became = await client.push("p", "http://b/")
            assert [type(request) for request in standby.heard] == [Hello, NewTasks]
        daemon.start()
        return became

    assert using(f"tcp://db.test:{port_of(daemon)}", use) == "new"


def test_who_is_not_reached_is_told_with_the_addresses_that_were_tried(names: Names) -> None:
    names.hosts = ["127.0.0.2", "::1"]

    async def main() -> None:
        async with AsyncClient("tcp://db.test:9", timeout=600, connect_timeout=0.01) as client:
            await client.status()

    with pytest.raises(RequestTimeout) as caught:
        asyncio.run(main())

    assert caught.value.why == f"{REFUSED} (127.0.0.2:9, [::1]:9)"


def test_a_name_that_is_not_known_yet_is_looked_up_again(daemon: Daemon, names: Names) -> None:
    async def use(client: AsyncClient) -> str:
        await client._reachability.lost.wait()
        names.hosts = ["127.0.0.1"]
        return await client.push("p", "http://a/")

    assert using(f"tcp://db.test:{port_of(daemon)}", use) == "new"


def test_the_random_numbers_of_the_program_stay_as_it_has_seeded_them(daemon: Daemon, names: Names) -> None:
    async def use(client: AsyncClient) -> str:
        await client._reachability.lost.wait()  # from here on it pauses for a random time before it tries again
        names.hosts = ["127.0.0.1"]
        return await client.push("p", "http://a/")

    before = random.getstate()
    using(f"tcp://db.test:{port_of(daemon)}", use)

    assert random.getstate() == before


def test_somebody_else_in_the_place_of_the_daemon_may_be_the_daemon_later() -> None:
    async def main() -> str:
        listening = socket.create_server(("127.0.0.1", 0))
        url = f"tcp://127.0.0.1:{listening.getsockname()[1]}"
        async with AsyncClient(url, timeout=WAIT_SECONDS) as client:
            with closing(listening):
                stranger, _ = await asyncio.to_thread(listening.accept)
                stranger.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                stranger.close()
                await client._reachability.lost.wait()
            daemon = await asyncio.to_thread(Daemon, url)
            try:
                return await client.push("p", "http://a/")
            finally:
                await asyncio.to_thread(daemon.stop)

    assert asyncio.run(main()) == "new"


# ---------------------------------------------------------------------------------------- limits


def long_once(max_message: int) -> Callable[[AnyRequest], list[AnyOutgoing]]:
    """Script of a daemon that sends too long a message once, after its first welcome."""
    said: list[AnyOutgoing] = [ErrorReply(n=0, code="malformed", reason=LONG)]

    def script(request: AnyRequest) -> list[AnyOutgoing]:
        if isinstance(request, Hello):
            welcome = Welcome(n=request.n, epoch=1, fetcher_timeout=60.0, max_message=max_message)
            return [welcome, said.pop()] if said else [welcome]
        return friendly(request)

    return script


def test_who_sends_more_than_a_daemon_may_is_let_go(daemon: Daemon) -> None:
    daemon.script = long_once(8 << 20)

    assert using(daemon.url, lambda client: client.push("p", "http://a/")) == "new"

    assert sum(isinstance(request, Hello) for request in daemon.heard) >= 2


def test_a_daemon_that_names_larger_messages_may_send_them(daemon: Daemon) -> None:
    def script(request: AnyRequest) -> list[AnyOutgoing]:
        if isinstance(request, Hello):
            return [Welcome(n=request.n, epoch=1, fetcher_timeout=60.0, max_message=64 << 20)]
        if isinstance(request, NewTasks):
            return [ErrorReply(n=request.n, code="full", reason=LONG)]
        return friendly(request)

    daemon.script = script

    with pytest.raises(Exception, match=r"^x{1000}") as caught:
        using(daemon.url, lambda client: client.push("p", "http://a/"))

    assert len(str(caught.value)) == len(LONG)


def test_a_daemon_that_names_larger_messages_may_do_so_right_before_one(daemon: Daemon) -> None:
    daemon.script = long_once(64 << 20)

    async def use(client: AsyncClient) -> NewTasksReply | str:
        return await client.push("p", "http://a/")

    assert using(daemon.url, use) == "new"
