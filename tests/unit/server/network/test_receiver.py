"""Messages that a turn hears, on a real socket."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import msgpack
import pytest
import zmq

from taskqueue.access.checks import Everybody
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.callers import Caller
from taskqueue.protocol.fields import Peer
from taskqueue.protocol.messages import Incoming, Outgoing
from taskqueue.server.meters import Meters
from taskqueue.server.network.receiver import BYTE_MS, Receiver
from taskqueue.server.network.router import Frame, Router
from tests.unit.server.network.conftest import MAX_MESSAGE, WAIT_MS
from tests.zmtp import connected, frame

LONG_SECONDS = 60.0


@pytest.fixture
def receiver(router: Router, meters: Meters) -> Receiver:
    return Receiver(router, meters)


@pytest.fixture
def peer(router: Router) -> Iterator[socket.socket]:
    with connected(router.endpoint) as connection:
        yield connection


def ask(peer: socket.socket, kind: str, n: int = 1, **fields: Any) -> None:
    peer.sendall(frame(msgpack.packb({"type": kind, "v": 1, "session": "s", "n": n} | fields)))


def hear(router: Router, receiver: Receiver) -> tuple[list[Incoming], list[Outgoing]]:
    """Return the next turn's requests and refusals, once a message has come."""
    assert router.socket.poll(WAIT_MS)
    return receiver.next_requests(MAX_MESSAGE)


def test_verify_waits_until_it_has_had_no_more_than_its_part_of_the_time(
    router: Router, receiver: Receiver, peer: socket.socket
) -> None:
    ask(peer, "verify", 1)
    ((first,), _) = hear(router, receiver)
    receiver.spent(LONG_SECONDS)

    ask(peer, "verify", 2)
    heard, refused = hear(router, receiver)

    assert first.request.n == 1
    assert (heard, refused) == ([], [])
    assert 8 * LONG_SECONDS < receiver.wait() <= 9 * LONG_SECONDS


def test_what_is_asked_of_the_store_by_who_reads_no_answers_is_not_looked_up(
    router: Router, receiver: Receiver, meters: Meters, peer: socket.socket
) -> None:
    ask(peer, "status", 1)
    ((first,), _) = hear(router, receiver)
    refused_in_a_row = 0
    while refused_in_a_row < 20:  # a message refused now may fit once the system has taken more of the earlier ones
        while router.send(first.peer, bytes(1 << 20)):
            refused_in_a_row = 0
        refused_in_a_row += 1
        router.socket.poll(10)
    undelivered = meters.undelivered

    ask(peer, "task-show", 2, project="p", taskid="a")
    heard, refused = hear(router, receiver)
    ask(peer, "new-task", 3, project="p", tasks=[])
    ((third,), _) = hear(router, receiver)

    assert (heard, refused) == ([], [])
    assert meters.undelivered == undelivered + 1
    assert third.request.n == 3


def test_what_is_no_request_is_refused_and_spoils_no_other(
    router: Router, receiver: Receiver, peer: socket.socket
) -> None:
    peer.sendall(frame(b"\xc1"))
    (_, (refused,)) = hear(router, receiver)
    ask(peer, "status", 2)
    ((heard,), _) = hear(router, receiver)

    assert heard.request.n == 2
    assert refused.peer == heard.peer


class Viewer(Everybody):
    """Access list of which each key is a viewer's."""

    def caller_of(self, name: str) -> Caller:
        return Caller("anna", "viewer", 1.0)


@pytest.mark.parametrize("kind", ["new-task", "nonsense"])
def test_a_refused_request_costs_its_sender_what_decoding_it_has_cost(
    router: Router, meters: Meters, peer: socket.socket, kind: str
) -> None:
    receiver = Receiver(router, meters, Viewer())
    ask(peer, kind, project="p", tasks=[{"taskid": "a", "url": "http://s/" + 7000 * "x"}] * 100)
    heard, (refused,) = hear(router, receiver)

    assert heard == []
    assert isinstance(refused.message, ErrorReply)
    assert receiver._queue.peers[refused.peer].charged >= BYTE_MS * 700_000


# ---------------------------------------------------------------------------------------- when receiving itself fails


class Unreadable(zmq.Frame):
    """Message for which there is no memory."""

    @property
    def bytes(self) -> bytes:
        raise MemoryError("no memory")


class TroubledRouter(Router):
    """Router whose next message can't be received after its first part, or not be decoded."""

    trouble = ""

    def drain(self) -> Iterator[Frame]:
        trouble, self.trouble = self.trouble, ""
        if trouble == "receiving":
            self.at_hand = Peer(self.socket.recv())
            raise zmq.ZMQError(zmq.EINVAL)
        for received in super().drain():
            yield received._replace(first=Unreadable()) if trouble == "decoding" else received


@pytest.fixture
def troubled(meters: Meters) -> Iterator[TroubledRouter]:
    with closing(TroubledRouter("tcp://127.0.0.1:*", MAX_MESSAGE, meters)) as router:
        yield router


@pytest.mark.parametrize("trouble", ["receiving", "decoding"])
def test_a_message_that_can_not_be_received_costs_its_connection_and_nobody_else_anything(
    troubled: TroubledRouter, meters: Meters, trouble: str
) -> None:
    receiver = Receiver(troubled, meters)
    with connected(troubled.endpoint) as bad, connected(troubled.endpoint) as polite:
        for n, peer in enumerate((bad, polite)):
            ask(peer, "status", n)
            hear(troubled, receiver)
        troubled.trouble = trouble
        bad.sendall(frame(b"first", more=True) + frame(b"second", more=True) + frame(b"third"))

        assert hear(troubled, receiver) == ([], [])

        ask(polite, "status", 7)
        heard: list[Incoming] = []
        while not heard:
            heard, _ = hear(troubled, receiver)
        assert [each.request.n for each in heard] == [7]
        with pytest.raises(ConnectionResetError):
            bad.recv(1)
        assert (meters.dropped, meters.closed_receive_failed) == (1, 1)


def test_while_requests_are_refused_a_message_that_can_not_be_received_is_passed_over(
    troubled: TroubledRouter, meters: Meters, peer: socket.socket
) -> None:
    receiver = Receiver(troubled, meters)
    with connected(troubled.endpoint) as bad:
        bad.sendall(frame(b"first"))
        troubled.socket.poll(WAIT_MS)
        troubled.trouble = "receiving"

        assert receiver.clear() == []
        while not meters.dropped:
            troubled.socket.poll(WAIT_MS)
            receiver.clear()
