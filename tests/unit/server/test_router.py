"""The daemon's socket, with peers that do what nobody should."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
import zmq

from taskqueue.server.meters import Meters
from taskqueue.server.router import Frame, Router

PARTS = 200_000
"""Of a message; to drop so many takes many times as long as a turn receives."""
WAIT_MS = 30_000


@pytest.fixture
def router() -> Iterator[Router]:
    with closing(Router("tcp://127.0.0.1:*", 1 << 20, Meters())) as router:
        yield router


@pytest.fixture
def peer(router: Router) -> Iterator[zmq.Socket[bytes]]:
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.connect(router.endpoint)
    yield socket
    socket.close()


def drained(router: Router) -> list[Frame]:
    """What one turn receives, when there is something."""
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
