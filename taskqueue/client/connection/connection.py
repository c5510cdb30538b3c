"""The socket of one client: frames out, frames in, and a word when there is a new connection or none any more.

A DEALER that queues nothing for a peer that isn't there: what can't be sent now is dropped here and sent again by the
session, which knows what has been answered. So nothing old lies in wait in a socket's queue.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final, cast

import zmq

from taskqueue.client.connection.connect_attempts import EVENTS, ConnectAttempts
from taskqueue.errors import ClientError

LINGER_MS = 1000
"""How long closing may take to send what was given to the socket."""

PING_MS = 10_000
"""A peer that is silent for three of these is gone; libzmq asks, in its own thread, and only then."""

MOST_FRAMES: Final = 100
"""Frames read at once."""

RECONNECT_MS, RECONNECT_MOST_MS = 100, 2_000

READABLE: Final = int(zmq.POLLIN)
"""As a plain number, which is compared in a third of the time of pyzmq's enumeration."""

LOST: Final = zmq.EVENT_DISCONNECTED | zmq.EVENT_CONNECT_RETRIED
"""What tells that there is no connection: it has gone, or another attempt has to be made."""


class Connection:
    """Open until ``close``; libzmq connects again by itself whenever the peer is gone.

    Read and written without waiting, when libzmq's descriptor says that there is something: the sockets of
    ``zmq.asyncio`` cost several times as much, with a future for each frame.

    Args:
        url: such as ``tcp://127.0.0.1:7400``.
        on_frames: called with the frames that have arrived, in order.
        on_connected: called whenever a connection has been made, the first one included.
        on_lost: called whenever one has gone, or could not be made.

    Attributes:
        loop: in which it was made, and is used.
        attempts: what became of those to connect.

    Raises:
        ClientError: the url is none.
    """

    def __init__(
        self,
        url: str,
        on_frames: Callable[[list[bytes]], None],
        on_connected: Callable[[], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._on_frames = on_frames
        self._on_connected = on_connected
        self._on_lost = on_lost
        self.loop = asyncio.get_running_loop()
        self._reading = False
        self._context = zmq.Context()
        self._socket = _dealer(self._context)
        self.attempts = ConnectAttempts()
        self._monitor = self._socket.get_monitor_socket(EVENTS | LOST)
        self.loop.add_reader(self._socket.FD, self._read)
        self.loop.add_reader(self._monitor.FD, self._watch)
        try:
            self._socket.connect(url)
        except zmq.ZMQError as error:
            self._let_go()
            self._context.term()
            raise ClientError(f"can't connect to {url!r}: {error}; a url looks like tcp://127.0.0.1:7400") from None
        # A descriptor tells nothing before its socket has been looked at once.
        self.loop.call_soon(self._read)
        self.loop.call_soon(self._watch)

    def send(self, frame: bytes) -> None:
        """Send if there is a connection; else drop the frame."""
        with suppress(zmq.Again):
            self._socket.send(frame, zmq.DONTWAIT)
        self._look_again()

    async def close(self) -> None:
        """Send what is on its way, for at most a second, and let go of the socket."""
        self._let_go()
        await self.loop.run_in_executor(None, self._context.term)

    def _read(self) -> None:
        """Take what has arrived, but not without end: others want the loop, too."""
        self._reading = False
        if self._socket.closed:
            return
        frames: list[bytes] = []
        # Asked each time, because to be refused makes an error, which costs three times as much.
        while len(frames) < MOST_FRAMES and self._has_frame():
            frames.append(self._socket.recv(zmq.DONTWAIT))
        if len(frames) == MOST_FRAMES:
            self._look_again()
        if frames:
            self._on_frames(frames)

    def _look_again(self) -> None:
        """The descriptor tells only once of what is new, and whoever uses the socket meanwhile takes the word away."""
        if not self._reading and self._has_frame():
            self._reading = True
            self.loop.call_soon(self._read)

    def _has_frame(self) -> bool:
        return bool(cast(int, self._socket.get(zmq.EVENTS)) & READABLE)

    def _watch(self) -> None:
        if self._monitor.closed:
            return
        connected = lost = False
        with suppress(zmq.Again):
            while True:
                event = int.from_bytes(self._monitor.recv_multipart(zmq.DONTWAIT)[0][:2], sys.byteorder)
                self.attempts.note(event)
                if event & (LOST | zmq.EVENT_HANDSHAKE_SUCCEEDED):
                    lost = bool(event & LOST)
                    connected = connected or not lost
        if lost:
            self._on_lost()
        if connected:
            # The socket learns of the connection by a command that a send soon after another one does not look at
            # (libzmq does so once a millisecond): without this, about one first frame in 200 was dropped.
            self._socket.get(zmq.EVENTS)
            self._on_connected()
            self._look_again()

    def _let_go(self) -> None:
        self.loop.remove_reader(self._socket.FD)
        self.loop.remove_reader(self._monitor.FD)
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close(LINGER_MS)


def _dealer(context: zmq.Context[zmq.Socket[bytes]]) -> zmq.Socket[bytes]:
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.IMMEDIATE, 1)
    socket.setsockopt(zmq.LINGER, LINGER_MS)
    # The window of the session bounds what is in flight, so no high-water mark has to.
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
    socket.setsockopt(zmq.RECONNECT_IVL_MAX, RECONNECT_MOST_MS)
    socket.setsockopt(zmq.HEARTBEAT_IVL, PING_MS)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, 3 * PING_MS)
    socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
    return socket
