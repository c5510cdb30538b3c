"""Connections that speak as much ZMTP 3.0 (rfc.zeromq.org/spec/23) as they like: what no ZeroMQ library would send."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Final

WAIT_SECONDS: Final = 30
MORE: Final = 1
LONG: Final = 2

EMPTY_PART: Final = b"\x01\x00"
"""A part of no bytes that others follow."""
LAST_PART: Final = b"\x00\x00"


def raw(url: str, wait_seconds: float = WAIT_SECONDS) -> socket.socket:
    """A connection that says nothing."""
    return socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1])), wait_seconds)


def connected(url: str, wait_seconds: float = WAIT_SECONDS) -> socket.socket:
    """A connection of a DEALER that has sent nothing yet, and reads when it is told to.

    Raises:
        OSError: nobody is there, or whoever is there doesn't greet.
    """
    connection = raw(url, wait_seconds)
    try:
        connection.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16 + 1 + 31))
        exactly(connection, 64)
        ready = b"\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER\x08Identity\x00\x00\x00\x00"
        connection.sendall(b"\x04" + bytes([len(ready)]) + ready)
        exactly(connection, exactly(connection, 2)[1])
    except OSError:
        connection.close()
        raise
    return connection


def frame(payload: bytes, more: bool = False) -> bytes:
    """A message, or a part of one that has more."""
    return head(len(payload), more) + payload


def head(length: int, more: bool = False) -> bytes:
    """What goes before a message, or a part, of so many bytes."""
    return struct.pack(">BQ", LONG | (MORE if more else 0), length)


def exactly(connection: socket.socket, length: int) -> bytes:
    """So many bytes, as soon as they have come.

    Raises:
        ConnectionResetError: the connection ended before.
    """
    received = b""
    while len(received) < length:
        piece = connection.recv(length - len(received))
        if not piece:
            raise ConnectionResetError(f"it ended after {len(received)} of {length} bytes")
        received += piece
    return received


def send_without_end(connection: socket.socket, until: Callable[[], bool]) -> None:
    """Send parts of a message that never ends, as fast as they are taken."""
    part, at = frame(bytes(1 << 20), more=True), 0
    connection.settimeout(0.1)
    with suppress(ConnectionError):
        while not until():
            # Nothing tells a sender whose window was closed that the other end has gone: the kernel asks, and waits.
            with suppress(TimeoutError):
                at = (at + connection.send(part[at:])) % len(part)
