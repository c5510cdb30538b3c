"""The daemon's one socket: frames in and frames out, never waiting.

A peer that has gone, or that does not read, is an ordinary event: what was meant for it is dropped and
counted, and its next ``hello`` puts things right. A frame is one whole message; a peer that sends several
parts gets an error. The socket gives all parts of a message one after the other; if they are very many, dropping them
is spread over turns, so that signals, deadlines and answers don't wait for the last one.

Bounds, a peer:
* RECEIVE_MARK messages received and not yet taken; beyond it the peer's own sends wait, by TCP.
* SEND_MARK messages that it hasn't read, and so many bytes as ``connections`` says; beyond it they are dropped.
* twice ``max_message`` bytes a message; libzmq cuts the connection that sends more. Between the two the peer
  gets an error reply, which tells more than a connection that breaks.
What all peers together make the process hold is bounded by ``watcher``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import zmq

from taskqueue.protocol.fields import Peer
from taskqueue.server.clock import ticks
from taskqueue.server.meters import Meters
from taskqueue.server.network.connection_guard import ConnectionGuard
from taskqueue.server.network.connections import Connections

DRAIN_FRAMES: Final = 1024
"""Received in one turn, at most."""
DRAIN_SECONDS: Final = 0.005
"""Spent on receiving in one turn, at most."""

RECEIVE_MARK: Final = 8
"""Of any length up to the longest; enough for the socket's own thread to go on while the loop takes them."""
RECEIVE_BYTES: Final = 256 << 10
"""Of a connection in the kernel. The socket's one thread takes all of that at once, so large messages of a hundred
connections keep a small one waiting for so long; 256 KiB a round trip are 25 MB/s over 10 ms."""
SEND_MARK: Final = 2048
"""What is unread is mostly ``select`` messages, whose tasks a fetcher's capacity bounds. They may be small and many:
timers that come due one by one, to a fetcher that pauses for a moment. One that could not be sent costs it its work
until it says hello again."""
PARTS_AT_ONCE: Final = 1000
"""Dropped before the clock is looked at again."""
LINGER_MS: Final = 1000
"""How long a stopping daemon tries to hand what it has said to the network."""
KEEPALIVE_IDLE_SECONDS: Final = 60
"""Silence after which the kernel probes a connection, so that those of vanished machines are closed."""


class Frame(NamedTuple):
    """A message as it came.

    Attributes:
        first: its first part.
        parts: how many it has; the protocol wants 1.
        address: of the peer's machine, such as 10.0.0.7, for people; empty if nobody knows.
    """

    peer: Peer
    first: zmq.Frame
    parts: int
    address: str = ""

    @property
    def payload(self) -> bytes:
        """The bytes of the first part, copied when they are first asked for."""
        return self.first.bytes

    @property
    def size(self) -> int:
        """How many bytes these are."""
        return len(self.first)


class Router:
    """Binds at once.

    Args:
        bind: address; a port of * is a free one.
        max_message: bytes; see the module.
        memory: bytes of the whole process, beyond most of which connections are cut.
        connections: that may be open.

    Attributes:
        endpoint: what it listens on, with the port that was chosen if the address left that open.

    Raises:
        zmq.ZMQError: the address can't be used.
    """

    def __init__(
        self,
        bind: str,
        max_message: int,
        meters: Meters,
        memory: int = 1 << 30,
        connections: int = 1 << 20,
    ) -> None:
        self._meters = meters
        self._connections = Connections(meters)
        self._unfinished: Frame | None = None
        self._context = zmq.Context()
        self.socket: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        self._configure(bind, max_message)
        self._guard = ConnectionGuard(self._context, self.socket, self._connections, memory, connections)
        try:
            self.socket.bind(bind)
        except zmq.ZMQError:
            self.close()
            raise
        self.endpoint = self.socket.get_string(zmq.LAST_ENDPOINT)

    def _configure(self, bind: str, max_message: int) -> None:
        self.socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        self.socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self.socket.setsockopt(zmq.RCVHWM, RECEIVE_MARK)
        self.socket.setsockopt(zmq.RCVBUF, RECEIVE_BYTES)
        self.socket.setsockopt(zmq.SNDHWM, SEND_MARK)
        self.socket.setsockopt(zmq.MAXMSGSIZE, 2 * max_message)
        self.socket.setsockopt(zmq.LINGER, LINGER_MS)
        self.socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
        self.socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, KEEPALIVE_IDLE_SECONDS)
        self.socket.setsockopt(zmq.IPV6, int("[" in bind))

    def drain(self) -> Iterator[Frame]:
        """What is waiting, as far as the bounds of a turn go; the caller's own time counts too."""
        self._connections.forget_closed()
        until = ticks() + DRAIN_SECONDS
        for _ in range(DRAIN_FRAMES):
            frame = self._receive(until) if ticks() < until else None
            if frame is None:
                return
            yield frame

    def send(self, peer: Peer, payload: bytes) -> bool:
        """Send now or never; False: nobody is there, or nobody reads."""
        if not self._connections.open_to(peer):
            self._meters.undelivered += 1
            return False
        try:
            self.socket.send(peer, zmq.SNDMORE | zmq.NOBLOCK)
            self.socket.send(payload, zmq.NOBLOCK)
        except zmq.ZMQError as error:
            if error.errno not in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                raise
            self._meters.undelivered += 1
            return False
        self._meters.frames_out += 1
        self._meters.bytes_out += len(payload)
        self._connections.sent(peer, len(payload))
        return True

    def reaches(self, peer: Peer) -> bool:
        """The peer is there, and has not left too much unread."""
        return self._connections.knows(peer) and self._connections.open_to(peer)

    def close(self) -> None:
        """Let go of the address, after LINGER_MS at most."""
        self._guard.close()
        self.socket.close()
        self._context.term()

    def _receive(self, until: float) -> Frame | None:
        """The next message; None if there is none, or if dropping its further parts takes longer than ``until``."""
        if self._unfinished is not None:
            return self._drop_parts(self._unfinished, until)
        try:
            peer = self.socket.recv(zmq.NOBLOCK)
        except zmq.Again:
            return None
        message = self.socket.recv(0, False)
        address = self._connections.received_from(peer, message).address
        self._meters.frames_in += 1
        self._meters.bytes_in += len(message)
        frame = Frame(Peer(peer), message, 1, address)
        return self._drop_parts(frame, until) if message.more else frame

    def _drop_parts(self, frame: Frame, until: float) -> Frame | None:
        """The message when its last part has been dropped; None: that goes on in the next turn."""
        self._unfinished = None
        receive, parts, more = self.socket.recv, frame.parts, True
        while more:
            more = receive(0, False).more
            parts += 1
            if parts % PARTS_AT_ONCE == 0 and more and ticks() >= until:
                self._unfinished = frame._replace(parts=parts)
                return None
        self._connections.mark_all_read(frame.peer)
        return frame._replace(parts=parts)
