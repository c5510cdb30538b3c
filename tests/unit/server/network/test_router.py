"""The daemon's socket, with misbehaving peers."""

from __future__ import annotations

import ctypes
import gc
import os
import socket
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest
import zmq

from taskqueue.protocol.fields import Peer
from taskqueue.server.limits import ProcessMemory
from taskqueue.server.meters import Meters
from taskqueue.server.network.connections import UNREAD_BYTES, UNREAD_BYTES_ALL, UNREAD_BYTES_LEFT, Connection
from taskqueue.server.network.router import Frame, Router
from tests.unit.server.network.conftest import MAX_MESSAGE, WAIT_MS
from tests.zmtp import connected, frame, old_message, raw, send_without_end

PARTS = 200_000
"""Parts of a message; dropping these takes many times as long as a turn receives."""

MEGABYTE = bytes(1 << 20)
KERNEL_BYTES = 16 << 20
"""Bytes that the kernels of both ends hold of a connection, at most."""
ROOM_BYTES = 100 << 20
MANY = 30


@pytest.fixture
def peer(router: Router) -> Iterator[zmq.Socket[bytes]]:
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.connect(router.endpoint)
    yield socket
    socket.close()


def drained(router: Router) -> list[Frame]:
    """Return the frames that one turn receives, once there are any."""
    assert router.socket.poll(WAIT_MS)
    return list(router.drain())


def test_a_message_of_several_parts_is_told_by_their_number_and_its_first(
    router: Router, peer: zmq.Socket[bytes]
) -> None:
    peer.send_multipart([b"first", b"second", b"third"])
    peer.send(b"next")

    frames = drained(router)
    while len(frames) < 2:
        frames += drained(router)

    assert [(frame.payload, frame.parts) for frame in frames] == [(b"first", 3), (b"next", 1)]


def test_the_parts_of_an_endless_message_are_dropped_over_many_turns(router: Router, peer: zmq.Socket[bytes]) -> None:
    for _ in range(PARTS - 1):
        peer.send(b"", zmq.SNDMORE)
    peer.send(b"")
    turns = [drained(router)]

    while not turns[-1]:
        turns.append(drained(router))

    assert len(turns) > 3
    assert [(frame.payload, frame.parts) for frame in turns[-1]] == [(b"", PARTS)]


# ---------------------------------------------------------------------------------------- what speaks another protocol

STRANGERS = {
    "ZMTP 1": old_message(1, b"a"),
    "ZMTP 2": old_message(2, b"a"),
    "HTTP": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
}


@pytest.mark.parametrize("said", STRANGERS.values(), ids=STRANGERS)
def test_who_speaks_another_version_or_protocol_is_let_go_at_its_greeting(
    router: Router, peer: zmq.Socket[bytes], said: bytes
) -> None:
    with raw(router.endpoint) as stranger:
        stranger.sendall(said)

        assert ended(stranger)

    peer.send(b"next")
    assert [frame.payload for frame in drained(router)] == [b"next"]


PARTS_OF_OLD = {
    "ZMTP 1": old_message(1, b"a"),
    "ZMTP 2": old_message(2, b"a"),
    "many parts": b"\x01\x00" + b"\x01\x01" * 1000 + b"\x01\x00",
    "empty lines": b"\n" * 500,
}


@pytest.fixture
def lenient(router: Router) -> Iterator[Router]:
    """Yield a router whose socket serves older versions of ZMTP, too."""
    own = router.socket
    with zmq.Context.instance().socket(zmq.ROUTER) as router.socket:
        router.socket.bind("tcp://127.0.0.1:*")
        router.endpoint = router.socket.get_string(zmq.LAST_ENDPOINT)
        yield router
    router.socket = own


@pytest.mark.parametrize("said", PARTS_OF_OLD.values(), ids=PARTS_OF_OLD)
def test_what_an_older_version_sends_is_dropped_where_libzmq_delivers_it(
    lenient: Router, meters: Meters, said: bytes
) -> None:
    with raw(lenient.endpoint) as stranger:
        stranger.sendall(said)
        while not meters.dropped:
            assert drained(lenient) == []

    with greeted(lenient):
        frames = drained(lenient)
        while not frames:
            frames = drained(lenient)

    assert [(frame.payload, frame.parts) for frame in frames] == [(b"hello", 1)]


# ---------------------------------------------------------------------------------------- routing ids


def test_which_routing_ids_a_socket_gives_follows_from_nothing_that_was_before(meters: Meters) -> None:
    first_ids = set()
    for _ in range(2):
        ctypes.CDLL(None).srand(1)  # as it is in each process that has just started
        with closing(Router("tcp://127.0.0.1:*", MAX_MESSAGE, meters)) as router, greeted(router):
            first_ids |= {frame.peer for frame in drained(router)}

    assert len(first_ids) == 2


def test_who_claims_the_routing_id_of_another_is_not_heard_and_gets_nothing_of_the_others(router: Router) -> None:
    with connected(router.endpoint, identity=b"fetcher") as honest:
        honest.sendall(frame(b"hello"))
        (heard,) = drained(router)
        with connected(router.endpoint, identity=b"fetcher") as thief, connected(router.endpoint) as next_one:
            thief.sendall(frame(b"mine"))
            next_one.sendall(frame(b"hello"))
            assert [frame.payload for frame in drained(router)] == [b"hello"]

            assert router.send(heard.peer, b"x")
            assert honest.recv(3) == b"\x00\x01x"
            honest.sendall(frame(b"again"))
            assert [frame.peer for frame in drained(router)] == [heard.peer]


ODD_IDS = {"begins with zero": b"\0me", "long": b"x" * 256, "very long": b"x" * 70_000}


@pytest.mark.parametrize("identity", ODD_IDS.values(), ids=ODD_IDS)
def test_a_routing_id_that_no_library_would_send_is_not_heard(
    router: Router, meters: Meters, peer: zmq.Socket[bytes], identity: bytes
) -> None:
    with connected(router.endpoint, identity=identity) as odd:
        odd.sendall(frame(b"hello"))
        while not meters.dropped:
            assert drained(router) == []

    peer.send(b"next")
    assert [frame.payload for frame in drained(router)] == [b"next"]


def test_a_connection_whose_other_end_has_vanished_is_probed_and_ended_by_the_kernel(router: Router) -> None:
    with greeted(router):
        (heard,) = drained(router)
        with socket.socket(fileno=os.dup(heard.first.get(zmq.SRCFD))) as accepted:
            options = (socket.SO_KEEPALIVE, socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            levels = (socket.SOL_SOCKET, *[socket.IPPROTO_TCP] * 3)

            told = [accepted.getsockopt(level, option) for level, option in zip(levels, options, strict=True)]

    assert told == [1, 60, 10, 3]


# ---------------------------------------------------------------------------------------- what connections make it hold


def test_what_a_peer_does_not_read_is_bounded_and_what_it_reads_makes_room(router: Router, meters: Meters) -> None:
    with greeted(router) as hostile:
        (heard,) = drained(router)

        while router.send(heard.peer, MEGABYTE):
            assert meters.bytes_out <= UNREAD_BYTES + KERNEL_BYTES
        sent, read = meters.bytes_out, 0
        while read < sent:
            read += len(hostile.recv(1 << 20))

        assert sent > UNREAD_BYTES // 2
        assert meters.undelivered == 1
        assert router.send(heard.peer, MEGABYTE)


def test_one_message_may_always_wait_however_long(router: Router) -> None:
    with greeted(router):
        (heard,) = drained(router)

        assert router.send(heard.peer, MEGABYTE * (2 * UNREAD_BYTES // len(MEGABYTE)))
        assert not router.send(heard.peer, b"next")


def test_when_too_much_is_unread_altogether_those_with_most_are_cut_and_who_has_read_is_not(
    router: Router, meters: Meters, peer: zmq.Socket[bytes]
) -> None:
    peer.send(b"polite")
    (polite,) = drained(router)
    hostile = [greeted(router) for _ in range(2 * UNREAD_BYTES_ALL // UNREAD_BYTES)]
    names: list[Peer] = []
    while len(names) < len(hostile):
        names += [heard.peer for heard in drained(router)]

    for name in names:
        while router.send(name, MEGABYTE):
            pass

    bytes_left = UNREAD_BYTES * (len(hostile) - meters.closed_unread)
    assert UNREAD_BYTES_LEFT - 2 * UNREAD_BYTES < bytes_left <= UNREAD_BYTES_ALL
    assert router.send(polite.peer, b"answer")
    assert peer.recv() == b"answer"
    for connection in hostile:
        connection.close()


def test_a_peer_that_has_gone_counts_no_more(router: Router, meters: Meters) -> None:
    for _ in range(2 * UNREAD_BYTES_ALL // UNREAD_BYTES):
        with greeted(router):
            (heard,) = drained(router)
            while router.send(heard.peer, MEGABYTE):
                pass

    assert meters.closed_unread == 0


def test_nothing_is_kept_of_peers_that_have_gone(router: Router, peer: zmq.Socket[bytes]) -> None:
    for _ in range(MANY):
        with greeted(router):
            drained(router)

    for _ in range(MANY):
        peer.send(b"x")
        drained(router)
        if kept() < MANY // 2:
            break

    assert kept() < MANY // 2


def kept() -> int:
    """Count the connections of which anything is known."""
    gc.collect()
    return sum(type(each) is Connection for each in gc.get_objects())


def test_a_connection_that_sends_without_end_is_cut_when_the_memory_gets_full(meters: Meters) -> None:
    memory = ProcessMemory()
    most = (memory.resident() + ROOM_BYTES) * 10 // 8
    with closing(Router("tcp://127.0.0.1:*", MAX_MESSAGE, meters, memory=most)) as router, greeted(router) as hostile:
        drained(router)

        send_without_end(hostile, lambda: bool(meters.closed_memory) or memory.resident() > 2 * most)

    # The guard counts after it has cut, and has ended now.
    assert (meters.closed_memory, meters.closed_crowded) == (1, 0)
    memory.close()


def test_when_connections_are_too_many_the_oldest_that_said_nothing_goes(meters: Meters) -> None:
    with (
        closing(Router("tcp://127.0.0.1:*", MAX_MESSAGE, meters, connections=3)) as router,
        greeted(router),
        raw(router.endpoint) as silent,
        raw(router.endpoint),
    ):
        drained(router)
        with greeted(router) as last:
            with suppress(ConnectionResetError):
                while silent.recv(1000):
                    pass

            (heard,) = drained(router)

            assert router.send(heard.peer, b"x")
            assert last.recv(3) == b"\x00\x01x"

    # The guard counts after it has cut, and has ended now.
    assert (meters.closed_memory, meters.closed_crowded) == (0, 1)


def ended(connection: socket.socket) -> bool:
    """Whether the other side closes the connection; messages before that are ignored."""
    with suppress(ConnectionResetError):
        while connection.recv(1000):
            pass
    return True


def greeted(router: Router) -> socket.socket:
    """Return a connection that has sent one message."""
    connection = connected(router.endpoint)
    connection.sendall(frame(b"hello"))
    return connection
