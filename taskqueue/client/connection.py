"""The socket of one client: frames out, frames in, and a word when there is a new connection.

A DEALER that queues nothing for a peer that isn't there: what can't be sent now is dropped here and sent again by the
session, which knows what has been answered. So nothing old lies in wait in a socket's queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import cast

import zmq
import zmq.asyncio
from zmq.utils.monitor import parse_monitor_message

from taskqueue.errors import ClientError

LINGER_MS = 1000
"""How long closing may take to send what was given to the socket."""

PING_MS = 10_000
"""A peer that is silent for three of these is gone; libzmq asks, in its own thread, and only then."""

RECONNECT_MS, RECONNECT_MOST_MS = 100, 2_000


class Connection:
    """Open until ``close``; libzmq connects again by itself whenever the peer is gone.

    Args:
        url: such as ``tcp://127.0.0.1:7400``.
        on_frame: called with each frame that arrives.
        on_connected: called whenever a connection has been made, the first one included.

    Raises:
        ClientError: the url is none.
    """

    def __init__(self, url: str, on_frame: Callable[[bytes], None], on_connected: Callable[[], None]) -> None:
        self._context = zmq.asyncio.Context()
        self._socket = _dealer(self._context)
        self._monitor = self._socket.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED)
        self._readers = [
            asyncio.ensure_future(_read(self._socket, on_frame)),
            asyncio.ensure_future(_watch(self._monitor, self._socket, on_connected)),
        ]
        try:
            self._socket.connect(url)
        except zmq.ZMQError as error:
            self._let_go()
            self._context.term()
            raise ClientError(f"can't connect to {url!r}: {error}; an url looks like tcp://127.0.0.1:7400") from None

    def send(self, frame: bytes) -> None:
        """Send if there is a connection; else drop the frame."""
        sent = cast("asyncio.Future[None]", self._socket.send(frame, flags=zmq.DONTWAIT))
        error = sent.exception()
        if error is not None and not isinstance(error, zmq.Again):
            raise error

    async def close(self) -> None:
        """Send what is on its way, for at most a second, and let go of the socket."""
        readers = self._readers
        self._let_go()
        await asyncio.gather(*readers, return_exceptions=True)
        await asyncio.get_running_loop().run_in_executor(None, self._context.term)

    def _let_go(self) -> None:
        for reader in self._readers:
            reader.cancel()
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close(LINGER_MS)


def _dealer(context: zmq.asyncio.Context) -> zmq.asyncio.Socket:
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


async def _read(socket: zmq.asyncio.Socket, on_frame: Callable[[bytes], None]) -> None:
    while True:
        on_frame(await socket.recv())


async def _watch(monitor: zmq.asyncio.Socket, socket: zmq.asyncio.Socket, on_connected: Callable[[], None]) -> None:
    with suppress(zmq.ZMQError):
        while True:
            parse_monitor_message(await monitor.recv_multipart())
            # The socket learns of the connection by a command that a send soon after another one does not look at
            # (libzmq does so once a millisecond): without this, about one first frame in 200 was dropped.
            socket.get(zmq.EVENTS)
            on_connected()
