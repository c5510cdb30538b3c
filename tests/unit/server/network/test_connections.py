"""Connections whose descriptors are reused, before and after the guard hears of that."""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Final, NamedTuple

import pytest
import zmq

from taskqueue.server.meters import Meters
from taskqueue.server.network import kernel
from taskqueue.server.network.connections import Connection, Connections
from tests.unit.server.network.conftest import WAIT_MS
from tests.zmtp import GREETING, exactly, frame, ready


class Heard(NamedTuple):
    """Message that was read, and the descriptor of its connection."""

    peer: bytes
    fd: int
    connection: Connection


class Listening:
    """Socket without a guard, whose part the test plays."""

    def __init__(self) -> None:
        self.meters = Meters()
        self.connections = Connections(self.meters)
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._port: int = self._socket.bind_to_random_port("tcp://127.0.0.1")

    def hear(self, client: socket.socket) -> Heard:
        """Have a client connect and send a message."""
        client.settimeout(WAIT_MS / 1000)
        client.connect(("127.0.0.1", self._port))
        client.sendall(GREETING)
        exactly(client, 64)
        client.sendall(ready())
        exactly(client, exactly(client, 2)[1])
        client.sendall(frame(b"hello"))
        assert self._socket.poll(WAIT_MS)
        peer, message = self._socket.recv_multipart(copy=False)
        connection = self.connections.received_from(peer.bytes, message)
        assert connection is not None
        return Heard(peer.bytes, int(message.get(zmq.SRCFD)), connection)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def listening() -> Iterator[Listening]:
    with closing(Listening()) as it:
        yield it


@pytest.fixture
def reused(listening: Listening) -> Iterator[tuple[Heard, Heard]]:
    """Yield a connection that was cut, and the next one, which has its descriptor."""
    with ExitStack() as stack:
        former, latter = (stack.enter_context(socket.socket()) for _ in range(2))
        first = listening.hear(former)
        listening.connections.cut(first.connection, 0, "test")
        while kernel.cookie(first.fd):  # until libzmq has closed it
            os.sched_yield()
        while (lower := os.dup(0)) < first.fd:
            stack.callback(os.close, lower)
        os.close(lower)
        second = listening.hear(latter)
        assert second.fd == first.fd
        yield first, second


def test_a_connection_with_the_descriptor_of_one_that_was_cut_is_served(
    listening: Listening, reused: tuple[Heard, Heard]
) -> None:
    former, latter = reused

    assert listening.connections.open_to(latter.peer)
    assert latter.connection is not former.connection


def test_the_end_of_a_connection_that_is_heard_of_late_does_not_end_the_next_one_with_its_descriptor(
    listening: Listening, reused: tuple[Heard, Heard]
) -> None:
    _, latter = reused

    listening.connections.closed(latter.fd)
    assert listening.connections.opened(latter.fd) is latter.connection
    listening.connections.forget_closed()

    assert listening.connections.knows(latter.peer)
    assert not latter.connection.is_silent


OPENED: Final = True
ENDED: Final = False


@pytest.mark.parametrize(
    "batches",
    [
        [[OPENED, ENDED, OPENED]],
        [[ENDED, OPENED]],
        [[OPENED, ENDED], [OPENED]],
        [[OPENED], [ENDED, OPENED]],
        [[OPENED, ENDED, OPENED, ENDED, OPENED]],
    ],
    ids=str,
)
def test_what_is_heard_late_of_former_connections_does_not_end_the_one_that_was_heard(
    listening: Listening, reused: tuple[Heard, Heard], batches: list[list[bool]]
) -> None:
    _, latter = reused

    for events in batches:
        list(listening.connections.follow(deque((is_open, latter.fd) for is_open in events)))

    assert listening.connections.open_to(latter.peer)
    assert not latter.connection.is_silent


def _accepted_by(server: socket.socket, stack: ExitStack) -> socket.socket:
    stack.enter_context(socket.create_connection(server.getsockname()))
    return stack.enter_context(server.accept()[0])


def test_a_former_connection_whose_end_is_heard_with_the_start_of_the_next_has_ended() -> None:
    connections = Connections(Meters())
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        accepted, next_accepted = (_accepted_by(server, stack) for _ in range(2))
        former = connections.opened(accepted.fileno())
        os.dup2(next_accepted.fileno(), accepted.fileno())

        heard = list(connections.follow(deque([(ENDED, former.fd), (OPENED, former.fd)])))

    assert [(is_open, each is former) for is_open, each in heard] == [(ENDED, True), (OPENED, False)]


def test_an_exception_costs_one_event_of_those_that_were_heard_together(monkeypatch: pytest.MonkeyPatch) -> None:
    connections = Connections(Meters())
    with ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        heard = deque((OPENED, _accepted_by(server, stack).fileno()) for _ in range(3))
        second = heard[1][1]
        monkeypatch.setattr(kernel, "cookie", lambda fd, cookie=kernel.cookie: _fail() if fd == second else cookie(fd))

        with pytest.raises(OSError, match="no descriptors"):
            list(connections.follow(heard))
        list(connections.follow(heard))

        assert len(connections) == 2


def _fail() -> bytes:
    raise OSError("no descriptors")


def test_the_end_of_a_connection_that_was_opened_ends_it(listening: Listening) -> None:
    with socket.socket() as client:
        heard = listening.hear(client)
        listening.connections.opened(heard.fd)

        listening.connections.closed(heard.fd)
        listening.connections.forget_closed()

    assert not listening.connections.knows(heard.peer)
