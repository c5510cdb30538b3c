"""The daemon's one socket: frames in and frames out, never waiting.

A peer that has gone, or that does not read, is an ordinary event: what was meant for it is dropped and
counted, and its next ``hello`` puts things right. A frame is one whole message; a peer that sends several
parts gets an error. The socket gives all parts of a message one after the other; if they are very many, dropping them
is spread over turns, so that signals, deadlines and answers don't wait for the last one.

Bounds, a peer:
* RECEIVE_MARK messages received and not yet taken; beyond it the peer's own sends wait, by TCP.
* SEND_MARK messages that it hasn't read; beyond it they are dropped.
* twice ``max_message`` bytes a message; libzmq cuts the connection that sends more. Between the two the peer
  gets an error reply, which tells more than a connection that breaks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import zmq

from taskqueue.core.messages import Peer
from taskqueue.server.clock import ticks
from taskqueue.server.meters import Meters

DRAIN_BYTES: Final = 4 << 20
DRAIN_FRAMES: Final = 1024
"""Received in one turn, at most; the last message may exceed it."""
DRAIN_SECONDS: Final = 0.010
"""Spent on receiving and decoding in one turn, at most; the last message may exceed it."""

RECEIVE_MARK: Final = 64
"""As many requests as a session may have unanswered."""
SEND_MARK: Final = 2048
"""What is unread is mostly ``select`` messages, whose tasks a fetcher's capacity bounds. They may be small and many:
timers that come due one by one, to a fetcher that pauses for a moment. One that could not be sent costs it its work
until it says hello again."""
PARTS_AT_ONCE: Final = 1000
"""Dropped before the clock is looked at again."""
LINGER_MS: Final = 1000
"""How long a stopping daemon tries to hand what it has said to the network."""
ADDRESSES_MOST: Final = 16_384
"""Of peers, remembered; beyond it they are learned anew."""
CHOSEN_BY_US: Final = b"\0"
"""What routing ids begin with that the socket gave, one to a connection; a peer may have chosen another one."""
KEEPALIVE_IDLE_SECONDS: Final = 60
"""Silence after which the kernel probes a connection, so that those of vanished machines are closed."""


class Frame(NamedTuple):
    """A message as it came.

    Attributes:
        parts: of the message; the protocol wants 1, ``payload`` is the first.
        address: of the peer's machine, such as 10.0.0.7, for people; empty if nobody knows.
    """

    peer: Peer
    payload: bytes
    parts: int
    address: str = ""


class Router:
    """Binds at once.

    Attributes:
        endpoint: what it listens on, with the port that was chosen if the address left that open.

    Raises:
        zmq.ZMQError: the address can't be used.
    """

    def __init__(self, bind: str, max_message: int, meters: Meters) -> None:
        self._meters = meters
        self._addresses: dict[bytes, str] = {}
        self._unfinished: Frame | None = None
        self._context = zmq.Context()
        self.socket: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        self._configure(bind, max_message)
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
        self.socket.setsockopt(zmq.SNDHWM, SEND_MARK)
        self.socket.setsockopt(zmq.MAXMSGSIZE, 2 * max_message)
        self.socket.setsockopt(zmq.LINGER, LINGER_MS)
        self.socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
        self.socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, KEEPALIVE_IDLE_SECONDS)
        self.socket.setsockopt(zmq.IPV6, int("[" in bind))

    def drain(self) -> Iterator[Frame]:
        """What is waiting, as far as the bounds of a turn go; the caller's own time counts too."""
        until, left = ticks() + DRAIN_SECONDS, DRAIN_BYTES
        for _ in range(DRAIN_FRAMES):
            frame = self._receive(until) if left > 0 and ticks() < until else None
            if frame is None:
                return
            left -= len(frame.payload)
            yield frame

    def send(self, peer: Peer, payload: bytes) -> bool:
        """Send now or never; False: nobody is there, or nobody reads."""
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
        return True

    def close(self) -> None:
        """Let go of the address, after LINGER_MS at most."""
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
        address = self._addresses.get(peer)
        if address is None:
            address = self._address_of(peer, message)
        payload = message.bytes
        self._meters.frames_in += 1
        self._meters.bytes_in += len(payload)
        frame = Frame(Peer(peer), payload, 1, address)
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
        return frame._replace(parts=parts)

    def _address_of(self, peer: bytes, message: zmq.Frame) -> str:
        """Where a message came from: asking it costs more than remembering it of each connection."""
        try:
            address = str(message.get("Peer-Address"))
        except zmq.ZMQError:
            address = ""
        if peer.startswith(CHOSEN_BY_US):
            if len(self._addresses) >= ADDRESSES_MOST:
                self._addresses.clear()
            self._addresses[peer] = address
        return address
