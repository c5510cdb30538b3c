"""Silent connections: how long they may stay, and how many."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from math import inf
from pathlib import Path

import pytest
import zmq

from taskqueue.server.meters import Meters
from taskqueue.server.network.connection_guard import (
    CROWDED_SECONDS,
    SILENT_MOST,
    SILENT_SECONDS,
    ConnectionGuard,
    SilentConnections,
)
from taskqueue.server.network.connections import Connection, Connections
from taskqueue.server.network.router import Router
from tests.zmtp import WAIT_SECONDS, connected, frame, raw

Make = Callable[[str], Connection]


@pytest.fixture
def silent() -> SilentConnections:
    return SilentConnections(SILENT_SECONDS)


@pytest.fixture
def accepted(silent: SilentConnections) -> Iterator[Make]:
    """Accept a connection of an address, at the moment 100."""
    ends = socket.socketpair()

    def accept(address: str = "10.0.0.1") -> Connection:
        connection = Connection(ends[0].fileno())
        connection.address = address
        silent.add(connection, 100.0)
        return connection

    yield accept
    for end in ends:
        end.close()


def test_one_that_says_nothing_is_due_after_its_time_and_not_before(silent: SilentConnections, accepted: Make) -> None:
    connection = accepted("10.0.0.1")

    assert silent.next_due_at() == 100 + SILENT_SECONDS
    assert silent.take_due(99.9 + SILENT_SECONDS) == []
    assert silent.take_due(100 + SILENT_SECONDS) == [connection]
    assert silent.next_due_at() == inf


def test_there_is_no_timer_for_one_that_was_heard_or_has_gone(silent: SilentConnections, accepted: Make) -> None:
    heard, gone = accepted("10.0.0.1"), accepted("10.0.0.1")
    silent.add(heard, 101.0)

    heard.peer = b"heard"
    silent.forget(gone)

    assert silent.next_due_at() == inf
    assert silent.take_due(1e9) == []


def test_of_too_many_of_one_address_the_oldest_give_way_soon_and_those_of_others_stay(
    silent: SilentConnections, accepted: Make
) -> None:
    other = accepted("10.0.0.2")
    first, second, *_ = [accepted("10.0.0.1") for _ in range(SILENT_MOST + 2)]

    assert silent.next_due_at() == 100 + CROWDED_SECONDS
    assert silent.take_due(99.9 + CROWDED_SECONDS) == []
    assert silent.take_due(100 + CROWDED_SECONDS) == [first, second]
    assert silent.next_due_at() == 100 + SILENT_SECONDS
    assert silent.take_due(100 + SILENT_SECONDS)[0] is other


def test_those_that_were_heard_do_not_count_among_the_silent_ones(silent: SilentConnections, accepted: Make) -> None:
    first, *others = [accepted("10.0.0.1") for _ in range(SILENT_MOST + 1)]

    others[-1].peer = b"heard"

    assert silent.take_due(100 + CROWDED_SECONDS) == []
    assert silent.take_due(100 + SILENT_SECONDS)[0] is first


def test_one_whose_address_is_known_only_from_its_first_message_is_forgotten_when_it_was_heard(
    silent: SilentConnections, accepted: Make
) -> None:
    local, other = accepted(""), accepted("")

    local.peer, local.address = b"heard", "localhost:0:0:4711"

    assert silent.next_due_at() == 100 + SILENT_SECONDS
    assert silent.take_due(100 + SILENT_SECONDS) == [other]
    assert silent.next_due_at() == inf


# ---------------------------------------------------------------------------------------- on a socket


def test_a_connection_on_which_nothing_is_heard_is_closed_without_anything_else_happening() -> None:
    meters = Meters()
    with (
        closing(Router("tcp://127.0.0.1:*", 1 << 20, meters, silent_seconds=0.1)) as router,
        raw(router.endpoint) as stranger,
        raw(router.endpoint) as another,
    ):
        router.await_messages(lambda: wait_for_the_end_of(stranger, another))

    assert (meters.closed_silent, meters.closed_crowded) == (2, 0)


def test_a_connection_that_the_loop_has_had_no_time_to_hear_is_not_taken_for_a_silent_one() -> None:
    with (
        closing(Router("tcp://127.0.0.1:*", 1 << 20, Meters(), silent_seconds=0.0)) as router,
        connected(router.endpoint) as patient,
    ):
        patient.sendall(frame(b"hello"))
        assert router.socket.poll(30_000)
        (heard,) = router.drain()

        assert router.send(heard.peer, b"x")
        assert patient.recv(3) == b"\x00\x01x"


def test_a_newcomer_is_heard_beside_as_many_silent_connections_as_there_may_be() -> None:
    meters = Meters()
    with closing(Router("tcp://127.0.0.1:*", 1 << 20, meters)) as router, ExitStack() as stack:
        spoken = stack.enter_context(connected(router.endpoint))
        spoken.sendall(frame(b"hello"))
        assert router.socket.poll(30_000)
        (first,) = router.drain()
        oldest, *_ = [stack.enter_context(raw(router.endpoint)) for _ in range(SILENT_MOST + 1)]

        router.await_messages(lambda: wait_for_the_end_of(oldest))
        newcomer = stack.enter_context(connected(router.endpoint))
        newcomer.sendall(frame(b"hello"))
        assert router.socket.poll(30_000)

        assert [heard.payload for heard in router.drain()] == [b"hello"]
        assert router.send(first.peer, b"x")
        assert spoken.recv(3) == b"\x00\x01x"
    assert (meters.closed_silent, meters.closed_crowded) == (1, 0)


def test_of_a_local_socket_silent_connections_are_closed_though_others_were_heard(tmp_path: Path) -> None:
    meters, place = Meters(), str(tmp_path / "door")
    speaker: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    with (
        closing(Router(f"ipc://{place}", 1 << 20, meters, silent_seconds=0.1)) as router,
        closing(speaker),
        closing(socket.socket(socket.AF_UNIX)) as stranger,
    ):
        speaker.connect(f"ipc://{place}")
        speaker.send(b"hello")
        assert router.socket.poll(30_000)
        (heard,) = router.drain()
        stranger.settimeout(WAIT_SECONDS)
        stranger.connect(place)
        router.await_messages(lambda: wait_for_the_end_of(stranger))

        assert router.send(heard.peer, b"x")
        assert speaker.poll(30_000)
    assert meters.closed_silent == 1


class TroubledConnections(Connections):
    """Connections that fail to register the first one."""

    def opened(self, fd: int) -> Connection:
        if not self.troubles:
            self.troubles += 1
            raise OSError("no descriptors")
        return super().opened(fd)

    troubles = 0


def test_whatever_goes_wrong_with_one_connection_the_next_ones_are_guarded(caplog: pytest.LogCaptureFixture) -> None:
    meters, context = Meters(), zmq.Context[zmq.Socket[bytes]]()
    connections = TroubledConnections(meters)
    connections.is_awaited = True
    with (
        context,
        context.socket(zmq.ROUTER) as listening,
        closing(ConnectionGuard(context, listening, connections, 1 << 30, 1000, silent_seconds=0.1)),
    ):
        listening.bind("tcp://127.0.0.1:*")
        endpoint = listening.get_string(zmq.LAST_ENDPOINT)
        with raw(endpoint), raw(endpoint) as second:
            wait_for_the_end_of(second)

    assert meters.closed_silent == 1
    assert [line.getMessage() for line in caplog.records if "guard-failed" in line.getMessage()] == [
        "guard-failed count=1 error=\"OSError('no descriptors')\""
    ]


def wait_for_the_end_of(*connections: socket.socket) -> None:
    """Wait until the other side has closed each of them."""
    for connection in connections:
        with suppress(ConnectionResetError):
            while connection.recv(1000):
                pass
