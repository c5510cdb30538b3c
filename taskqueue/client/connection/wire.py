"""One socket to one address, from the attempt to connect until the connection is lost; it never connects again.

    connecting ──handshake──► up ──lost──► down
        └──refused, a stranger, or ``give_up``──► down

So whatever is sent leaves on a connection that its owner knows of: libzmq would connect again by itself, and what is
sent before that is noticed would overtake what has to be sent again.

A DEALER that queues nothing for a peer that isn't there. Read and written without waiting, when libzmq's descriptor
says that there is something: the sockets of ``zmq.asyncio`` cost several times as much, with a future for each frame.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, cast

import zmq

from taskqueue.client.connection.addresses import Address
from taskqueue.client.connection.connect_attempts import MUTE, REFUSED, SILENT, STRANGER

LINGER_MS: Final = 1000
"""How long closing may take to send what was given to the socket."""

PING_MS: Final = 5_000
GONE_MS: Final = 3 * PING_MS
"""After a ping that nothing follows for so long the connection is given up; libzmq asks, in its own thread. Together
20 s at most, so that a call with the default timeout of 30 s has time to be repeated on a new connection.
"""

RECEIVE_MARK: Final = 1000
"""Messages received and not yet read; beyond it TCP makes the daemon's wait. With MAXMSGSIZE it bounds what a client
takes from whoever is there: six messages of 150 MB took 221 MiB.
"""

MOST_FRAMES: Final = 100
"""Frames read at once."""

READABLE: Final = int(zmq.POLLIN)
"""As a plain number, which is compared in a third of the time of pyzmq's enumeration."""

STRANGE: Final = (
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)
DOWN: Final = STRANGE | zmq.EVENT_CLOSED | zmq.EVENT_DISCONNECTED
EVENTS: Final = DOWN | zmq.EVENT_CONNECTED | zmq.EVENT_HANDSHAKE_SUCCEEDED


class Heard(NamedTuple):
    """Who is told what becomes of a wire.

    Attributes:
        frames: called with the frames that have arrived, in order.
        up: called when the other end has greeted.
        down: called once, with the wire and the reason in words, when it can't be used any more; it is closed then.
    """

    frames: Callable[[list[bytes]], None]
    up: Callable[[], None]
    down: Callable[[Wire, str], None]


class Wire:
    """Begins to connect when it is made.

    Args:
        most_bytes: of a message; who sends a longer one is let go.

    Attributes:
        is_up: the other end speaks ZeroMQ's protocol, so frames may be sent.
        address: the other end.

    Raises:
        zmq.ZMQError: nothing can have that address.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        address: Address,
        most_bytes: int,
        loop: asyncio.AbstractEventLoop,
        heard: Heard,
    ) -> None:
        self.address = address
        self.is_up = False
        self._is_connected = False
        self._reading = False
        self._loop = loop
        self._heard = heard
        self._socket = _dealer(context, address, most_bytes)
        self._monitor = self._socket.get_monitor_socket(EVENTS)
        loop.add_reader(self._socket.FD, self._read)
        loop.add_reader(self._monitor.FD, self._watch)
        try:
            self._socket.connect(address.endpoint)
        except zmq.ZMQError:
            self.close(0)
            raise
        # A descriptor tells nothing before its socket has been looked at once.
        loop.call_soon(self._read)
        loop.call_soon(self._watch)

    @property
    def is_mute(self) -> bool:
        """Somebody took the connection, and has not greeted."""
        return self._is_connected and not self.is_up

    def send(self, frame: bytes) -> None:
        """Send if there is a connection; else drop the frame."""
        with suppress(zmq.Again):
            self._socket.send(frame, zmq.DONTWAIT)
        self._look_again()

    def give_up(self) -> None:
        """Go down unless the other end has greeted, which may only not have been read yet."""
        self._watch()
        if not self.is_up and not self._socket.closed:
            self._go_down(MUTE if self._is_connected else SILENT)

    def close(self, linger_ms: int) -> None:
        """Let go of the socket; for so long what is on its way may still leave."""
        if self._socket.closed:
            return
        self.is_up = False
        self._loop.remove_reader(self._socket.FD)
        self._loop.remove_reader(self._monitor.FD)
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close(linger_ms)

    def _read(self) -> None:
        """Take what has arrived, but not without end: others want the loop, too."""
        self._reading = False
        if self._socket.closed:
            return
        frames = self._frames(MOST_FRAMES)
        if len(frames) == MOST_FRAMES:
            self._look_again()
        if frames:
            self._heard.frames(frames)

    def _frames(self, most: int) -> list[bytes]:
        frames: list[bytes] = []
        # Asked each time, because to be refused makes an error, which costs three times as much.
        while len(frames) < most and self._has_frame():
            frames.append(self._socket.recv(zmq.DONTWAIT))
        return frames

    def _look_again(self) -> None:
        """The descriptor tells only once of what is new, and whoever uses the socket meanwhile takes the word away."""
        if not self._reading and self._has_frame():
            self._reading = True
            self._loop.call_soon(self._read)

    def _has_frame(self) -> bool:
        return bool(cast(int, self._socket.get(zmq.EVENTS)) & READABLE)

    def _watch(self) -> None:
        while not self._monitor.closed and (event := self._next_event()):
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._go_up()
            elif event == zmq.EVENT_CONNECTED:
                self._is_connected = True
            elif event & DOWN:
                self._go_down(STRANGER if self._is_connected else REFUSED)

    def _next_event(self) -> int:
        """The next thing that libzmq tells; 0: nothing."""
        with suppress(zmq.Again):
            return int.from_bytes(self._monitor.recv_multipart(zmq.DONTWAIT)[0][:2], sys.byteorder)
        return 0

    def _go_up(self) -> None:
        self.is_up = True
        # The socket learns of the connection by a command that a send soon after another one does not look at
        # (libzmq does so once a millisecond): without this, about one first frame in 200 was dropped.
        self._socket.get(zmq.EVENTS)
        self._heard.up()
        if not self._socket.closed:
            self._look_again()

    def _go_down(self, why: str) -> None:
        """Read what came before the end, such as the answer after which a daemon that stops has hung up."""
        frames = self._frames(RECEIVE_MARK)
        self.close(0)
        if frames:
            self._heard.frames(frames)
        self._heard.down(self, why)


def _dealer(context: zmq.Context[zmq.Socket[bytes]], address: Address, most_bytes: int) -> zmq.Socket[bytes]:
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.IPV6, int(address.is_ipv6))
    socket.setsockopt(zmq.IMMEDIATE, 1)
    socket.setsockopt(zmq.LINGER, 0)
    # The window of the session bounds what is in flight, so no high-water mark has to.
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.RCVHWM, RECEIVE_MARK)
    socket.setsockopt(zmq.MAXMSGSIZE, most_bytes)
    socket.setsockopt(zmq.RECONNECT_IVL, -1)
    # Who does not greet is given up by the owner.
    socket.setsockopt(zmq.HANDSHAKE_IVL, 0)
    socket.setsockopt(zmq.HEARTBEAT_IVL, PING_MS)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, GONE_MS)
    socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
    return socket
