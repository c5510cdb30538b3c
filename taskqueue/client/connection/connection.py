"""Connection of a client to its daemon, made anew after each loss, to an address that the URL stands for then.

    look up ──► address ──► up ──lost──────────────────┐
       ▲          │ ▲  └── refused, or time is over    │
       │          └─┘ the next one                     │
       └── pause, longer after each round ◄── the last ┘

Frames that can't be sent now are dropped here and sent again by the session, which knows what has been answered. So no
old frame waits in a socket's queue.

A ``Wire`` is one socket to one address, from the attempt to connect until the connection is lost; it never connects
again:

    connecting ──handshake──► up ──lost──► down
        └──refused, a stranger, or ``give_up``──► down

So each frame leaves on a connection that its owner knows of: libzmq would connect again by itself, and frames sent
before the owner notices would overtake those that have to be sent again.

The socket is a DEALER that queues nothing for an absent peer. It is read and written without waiting, when libzmq's
descriptor signals: the sockets of ``zmq.asyncio`` cost several times as much, with a future for each frame.
"""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, cast

import zmq

from taskqueue.access.key_file import KeyFile
from taskqueue.client.connection.addresses import (
    EXAMPLE,
    KEY_MISSING,
    KEY_REFUSED,
    KEYLESS,
    MUTE,
    OTHER_DAEMON,
    REFUSED,
    SILENT,
    STRANGER,
    Address,
    ConnectAttempts,
    Found,
    Target,
)
from taskqueue.client.connection.greeting import mechanism_at
from taskqueue.errors import ClientError
from taskqueue.protocol.codec import MAX_MESSAGE_BYTES

LINGER_MS: Final = 1000
"""Time that closing may take to send frames already given to the socket."""

PING_MS: Final = 5_000
GONE_MS: Final = 3 * PING_MS
"""Time after an unanswered ping at which the connection is given up; libzmq pings in its own thread. Together at most
20 s, so that a call with the default timeout of 30 s can be repeated on a new connection.
"""

RECEIVE_MARK: Final = 1000
"""Messages received and not yet read, beyond which TCP makes the daemon wait. With MAXMSGSIZE it bounds the memory that
any peer can occupy: six messages of 150 MB took 221 MiB.
"""

MOST_FRAMES: Final = 100
"""Frames read at once."""

READABLE: Final = int(zmq.POLLIN)
"""POLLIN as a plain number, which compares in a third of the time of pyzmq's enumeration."""

STRANGE: Final = (
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)
OTHER_MECHANISM: Final = 0x11000002
"""Value of HANDSHAKE_FAILED_PROTOCOL if one side wants keys and the other does not (zmq.h)."""
DOWN: Final = STRANGE | zmq.EVENT_CLOSED | zmq.EVENT_DISCONNECTED
EVENTS: Final = DOWN | zmq.EVENT_CONNECTED | zmq.EVENT_HANDSHAKE_SUCCEEDED


_event: Final = struct.Struct("=HI")


class Wire:
    """Socket to one address, which begins to connect when it is created.

    Args:
        most_bytes: size of a message beyond which the peer is disconnected.
        key: shown to peers by TCP; None: there is no key. Others are let in by the file system.

    Attributes:
        is_up: True while the peer speaks ZeroMQ's protocol, so that frames may be sent.
        address: address of the peer.

    Raises:
        zmq.ZMQError: the address is impossible.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        address: Address,
        most_bytes: int,
        loop: asyncio.AbstractEventLoop,
        heard: Heard,
        key: KeyFile | None = None,
    ) -> None:
        self.address = address
        self._key = key if address.is_tcp else None
        self._probe: asyncio.Task[None] | None = None
        self.is_up = False
        self._is_connected = False
        self._reading = False
        self._loop = loop
        self._heard = heard
        self._socket = _dealer(context, address, most_bytes, self._key)
        self._monitor = self._socket.get_monitor_socket(EVENTS)
        loop.add_reader(self._socket.FD, self._read)
        loop.add_reader(self._monitor.FD, self._watch)
        try:
            self._socket.connect(address.endpoint)
        except zmq.ZMQError:
            self.close(0)
            raise
        # A descriptor signals nothing before its socket has been read once.
        loop.call_soon(self._read)
        loop.call_soon(self._watch)

    @property
    def is_mute(self) -> bool:
        """True if the peer has accepted the connection, and not greeted."""
        return self._is_connected and not self.is_up

    def send(self, frame: bytes) -> None:
        """Send if there is a connection; else drop the frame."""
        with suppress(zmq.Again):
            self._socket.send(frame, zmq.DONTWAIT)
        self._look_again()

    def give_up(self) -> None:
        """Go down unless the peer has greeted, which may just not have been read yet."""
        self._watch()
        if not self.is_up and not self._socket.closed:
            self._go_down(MUTE if self._is_connected else SILENT)

    def close(self, linger_ms: int) -> None:
        """Close the socket; frames on their way may still leave for ``linger_ms``."""
        if self._probe is not None:
            self._probe.cancel()
        if self._socket.closed:
            return
        self.is_up = False
        self._loop.remove_reader(self._socket.FD)
        self._loop.remove_reader(self._monitor.FD)
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close(linger_ms)

    def _read(self) -> None:
        """Read the frames that have arrived, at most MOST_FRAMES, so that others get the loop, too."""
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
        # Checked each time, because a refused read raises an error, which costs three times as much.
        while len(frames) < most and self._has_frame():
            frames.append(self._socket.recv(zmq.DONTWAIT))
        return frames

    def _look_again(self) -> None:
        """Schedule a read if a frame is there: the descriptor signals once, and any use clears the signal."""
        if not self._reading and self._has_frame():
            self._reading = True
            self._loop.call_soon(self._read)

    def _has_frame(self) -> bool:
        return bool(cast(int, self._socket.get(zmq.EVENTS)) & READABLE)

    def _watch(self) -> None:
        while not self._monitor.closed:
            event, value = self._next_event()
            if not event:
                return
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self._go_up()
            elif event == zmq.EVENT_CONNECTED:
                self._is_connected = True
            elif event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
                self._go_down(KEY_REFUSED)
            elif event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL and value == OTHER_MECHANISM:
                self._go_down(KEYLESS if self._key else KEY_MISSING)
            elif event & DOWN and self._is_connected and not self.is_up and self.address.is_tcp:
                self.close(0)
                self._probe = self._loop.create_task(self._ask_what_it_is())
            elif event & DOWN:
                self._go_down(STRANGER if self._is_connected else REFUSED)

    def _next_event(self) -> tuple[int, int]:
        """Return libzmq's next event and its value; 0: none."""
        with suppress(zmq.Again):
            return cast(tuple[int, int], _event.unpack(self._monitor.recv_multipart(zmq.DONTWAIT)[0]))
        return 0, 0

    async def _ask_what_it_is(self) -> None:
        """Find out why a peer has hung up in the handshake, and go down."""
        host, _, port = self.address.shown.rpartition(":")
        mechanism = await mechanism_at(host.strip("[]"), int(port))
        self._probe = None
        if mechanism == "CURVE":
            why = OTHER_DAEMON if self._key else KEY_MISSING
        else:
            why = KEYLESS if mechanism and self._key else STRANGER
        self._heard.down(self, why)

    def _go_up(self) -> None:
        self.is_up = True
        # The socket learns of the connection by a command that a send soon after another one does not look at
        # (libzmq does so once a millisecond): without this, about one first frame in 200 was dropped.
        self._socket.get(zmq.EVENTS)
        self._heard.up()
        if not self._socket.closed:
            self._look_again()

    def _go_down(self, why: str) -> None:
        """Read the frames that came before the end, such as the last answer of a daemon that stops, and close."""
        frames = self._frames(RECEIVE_MARK)
        self.close(0)
        if frames:
            self._heard.frames(frames)
        self._heard.down(self, why)


class Heard(NamedTuple):
    """Callbacks of a wire.

    Attributes:
        frames: called with the frames that have arrived, in order.
        up: called when the peer has greeted.
        down: called once, with the closed wire and the reason in words, when it can't be used any more.
    """

    frames: Callable[[list[bytes]], None]
    up: Callable[[], None]
    down: Callable[[Wire, str], None]


def present_key(socket: zmq.Socket[bytes], key: KeyFile) -> None:
    """Have a socket that is not connected yet prove this key, and refuse any other daemon than the key's."""
    socket.setsockopt(zmq.CURVE_PUBLICKEY, bytes.fromhex(key.public))
    socket.setsockopt(zmq.CURVE_SECRETKEY, bytes.fromhex(key.secret))
    socket.setsockopt(zmq.CURVE_SERVERKEY, bytes.fromhex(key.server))


def _dealer(
    context: zmq.Context[zmq.Socket[bytes]], address: Address, most_bytes: int, key: KeyFile | None
) -> zmq.Socket[bytes]:
    socket = context.socket(zmq.DEALER)
    if key is not None:
        present_key(socket, key)
    socket.setsockopt(zmq.IPV6, int(address.is_ipv6))
    socket.setsockopt(zmq.IMMEDIATE, 1)
    socket.setsockopt(zmq.LINGER, 0)
    # The session bounds the requests in flight, so no high-water mark has to.
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.RCVHWM, RECEIVE_MARK)
    socket.setsockopt(zmq.MAXMSGSIZE, most_bytes)
    socket.setsockopt(zmq.RECONNECT_IVL, -1)
    # The owner gives up a peer that does not greet.
    socket.setsockopt(zmq.HANDSHAKE_IVL, 0)
    socket.setsockopt(zmq.HEARTBEAT_IVL, PING_MS)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, GONE_MS)
    socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
    return socket


TRY_SECONDS: Final = 2.0
"""Time for which each of several addresses is tried in the first round; doubled in each further round, up to
TRY_SECONDS_MOST, so that a daemon behind a slow line is reached in the end. A single address is tried for that long.
"""
TRY_SECONDS_MOST: Final = 16.0

PAUSE_SECONDS: Final = 0.1
PAUSE_SECONDS_MOST: Final = 1.0
"""Pause between rounds, doubled after each; then up to twice as long by chance, so that the clients of a daemon don't
come all at once.
"""

DOUBLINGS_MOST: Final = 10

MESSAGE_BYTES_MOST: Final = 1 << 30
"""Largest ``max_message`` that a daemon can be given."""


class Connection:
    """Connection to the daemon at a URL, open until ``close``.

    Args:
        url: such as ``tcp://127.0.0.1:7400``.
        on_frames: called with the frames that have arrived, in order.
        on_connected: called whenever a connection has been made, including the first.
        on_lost: called whenever a connection is lost, or could not be made.
        key: of this client; None: it has none.

    Attributes:
        loop: loop in which it was made, and is used.
        key: of this client.
        attempts: results of attempts to connect.

    Raises:
        ClientError: the URL is invalid.
    """

    def __init__(
        self,
        url: str,
        on_frames: Callable[[list[bytes]], None],
        on_connected: Callable[[], None],
        on_lost: Callable[[], None],
        key: KeyFile | None = None,
    ) -> None:
        self.key = key
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
        """Accept messages of twice as many bytes; if that is more than before, on a new connection."""
        most_bytes = 2 * min(max_message, MESSAGE_BYTES_MOST)
        if most_bytes <= self._most_bytes or self._wire is None:
            return
        self._most_bytes = most_bytes
        self._left.insert(0, self._wire.address)
        self._wire.close(0)
        self._try_next()

    def why_not(self) -> str:
        """Return the reason why there is no connection, as far as it is known."""
        if self._wire is not None and self._wire.is_mute:
            self.attempts.ended(self._wire.address.shown, MUTE)
        return self.attempts.why

    async def close(self) -> None:
        """Send the frames on their way, for at most a second, and close the socket."""
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
            wire = self._wire = Wire(self._context, address, self._most_bytes, self.loop, self._heard, self.key)
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
        """Try the next address; after a lost connection, all of them after a pause."""
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
