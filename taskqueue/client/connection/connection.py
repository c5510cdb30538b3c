"""The connection of one client to its daemon, made anew whenever it is lost, to what its url stands for then.

    look up ──► address ──► up ──lost──────────────────┐
       ▲          │ ▲  └── refused, or time is over    │
       │          └─┘ the next one                     │
       └── pause, longer after each round ◄── the last ┘

What can't be sent now is dropped here and sent again by the session, which knows what has been answered. So nothing old
lies in wait in a socket's queue.

A ``Wire`` is one socket to one address, from the attempt to connect until the connection is lost; it never connects
again:

    connecting ──handshake──► up ──lost──► down
        └──refused, a stranger, or ``give_up``──► down

So whatever is sent leaves on a connection that its owner knows of: libzmq would connect again by itself, and what is
sent before that is noticed would overtake what has to be sent again.

The socket is a DEALER that queues nothing for a peer that isn't there. It is read and written without waiting, when
libzmq's descriptor says that there is something: the sockets of ``zmq.asyncio`` cost several times as much, with a
future for each frame.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, cast

import zmq

from taskqueue.client.connection.addresses import (
    EXAMPLE,
    MUTE,
    REFUSED,
    SILENT,
    STRANGER,
    Address,
    ConnectAttempts,
    Found,
    Target,
)
from taskqueue.errors import ClientError
from taskqueue.protocol.codec import MAX_MESSAGE_BYTES

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


TRY_SECONDS: Final = 2.0
"""How long each of several addresses is tried in the first round; twice as long in each further one, up to
TRY_SECONDS_MOST, so that a daemon behind a slow line is reached in the end. A single one is tried for that long.
"""
TRY_SECONDS_MOST: Final = 16.0

PAUSE_SECONDS: Final = 0.1
PAUSE_SECONDS_MOST: Final = 1.0
"""Between rounds, doubled after each; then up to twice as long by chance, lest all clients of a daemon come at once."""

DOUBLINGS_MOST: Final = 10

MESSAGE_BYTES_MOST: Final = 1 << 30
"""The largest ``max_message`` that a daemon can be given."""


class Connection:
    """Open until ``close``.

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
        self.loop = asyncio.get_running_loop()
        self._target = Target(url)
        self.attempts = ConnectAttempts(self._target.name)
        self._on_connected = on_connected
        self._on_lost = on_lost
        self._heard = Heard(on_frames, self._up, self._down)
        self._most_bytes = 2 * MAX_MESSAGE_BYTES
        self._rounds = 0
        self._chance = random.Random()  # the program's own random numbers stay as it seeded them
        self._left: list[Address] = []
        self._is_alone = False
        self._wire: Wire | None = None
        self._is_up = False
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._context = zmq.Context()
        self._begin_round()
        if not self._target.name and self._wire is None:
            self._let_go(0)
            self._context.term()
            raise ClientError(f"can't connect to {url!r}: {self.attempts.why}; {EXAMPLE}")

    def send(self, frame: bytes) -> None:
        """Send if there is a connection; else drop the frame."""
        if self._is_up and self._wire is not None:
            self._wire.send(frame)

    def allow(self, max_message: int) -> None:
        """Take messages of twice as many bytes; if that is more than before, on a new connection."""
        most_bytes = 2 * min(max_message, MESSAGE_BYTES_MOST)
        if most_bytes <= self._most_bytes or self._wire is None:
            return
        self._most_bytes = most_bytes
        self._left.insert(0, self._wire.address)
        self._wire.close(0)
        self._try_next()

    def why_not(self) -> str:
        """In words, why there is no connection, as far as that is known."""
        if self._wire is not None and self._wire.is_mute:
            self.attempts.ended(self._wire.address.shown, MUTE)
        return self.attempts.why

    async def close(self) -> None:
        """Send what is on its way, for at most a second, and let go of the socket."""
        self._let_go(LINGER_MS)
        await self.loop.run_in_executor(None, self._context.term)

    def _begin_round(self) -> None:
        if not self._closed:
            self._target.look_up(self.loop, self._found)

    def _found(self, found: Found) -> None:
        if self._closed:
            return
        if isinstance(found, Exception):
            self.attempts.unknown(found)
            self._end_round()
            return
        self.attempts.found([address.shown for address in found])
        self._left = list(found)
        self._is_alone = len(found) == 1
        self._try_next()

    def _try_next(self) -> None:
        self._set_timer(None)
        self._wire, self._is_up = None, False
        if not self._left:
            self._end_round()
            return
        address = self._left.pop(0)
        try:
            wire = self._wire = Wire(self._context, address, self._most_bytes, self.loop, self._heard)
        except zmq.ZMQError as error:
            self.attempts.ended(address.shown, str(error))
            self._try_next()
            return
        self._set_timer(self.loop.call_later(self._try_seconds(), wire.give_up))

    def _try_seconds(self) -> float:
        return TRY_SECONDS_MOST if self._is_alone else _doubled(TRY_SECONDS, self._rounds, TRY_SECONDS_MOST)

    def _up(self) -> None:
        self._set_timer(None)
        self._is_up = True
        self._rounds = 0
        self._left = []
        self.attempts.connected()
        self._on_connected()

    def _down(self, wire: Wire, why: str) -> None:
        """Try the next address; after a connection that was lost, all of them after a pause."""
        if wire is not self._wire or self._closed:
            return
        if not self._is_up:
            self.attempts.ended(wire.address.shown, why)
        self._try_next()

    def _end_round(self) -> None:
        seconds = _doubled(PAUSE_SECONDS, self._rounds, PAUSE_SECONDS_MOST) * self._chance.uniform(1, 2)
        self._rounds += 1
        self._set_timer(self.loop.call_later(seconds, self._begin_round))
        self._on_lost()

    def _set_timer(self, timer: asyncio.TimerHandle | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = timer

    def _let_go(self, linger_ms: int) -> None:
        self._closed = True
        self._set_timer(None)
        if self._wire is not None:
            self._wire.close(linger_ms)


def _doubled(seconds: float, times: int, most: float) -> float:
    return float(min(seconds * 2 ** min(times, DOUBLINGS_MOST), most))
