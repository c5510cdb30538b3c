"""The connection of one client to its daemon, made anew whenever it is lost, to what its url stands for then.

    look up ──► address ──► up ──lost──────────────────┐
       ▲          │ ▲  └── refused, or time is over    │
       │          └─┘ the next one                     │
       └── pause, longer after each round ◄── the last ┘

What can't be sent now is dropped here and sent again by the session, which knows what has been answered. So nothing old
lies in wait in a socket's queue.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Final

import zmq

from taskqueue.client.connection.addresses import EXAMPLE, Address, Found, Target
from taskqueue.client.connection.connect_attempts import MUTE, ConnectAttempts
from taskqueue.client.connection.wire import LINGER_MS, Heard, Wire
from taskqueue.errors import ClientError
from taskqueue.protocol.codec import MAX_MESSAGE_BYTES

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
