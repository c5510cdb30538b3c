"""Connections that speak ZMTP in part or wrongly, as no ZeroMQ library would.

Versions are 3.0 (rfc.zeromq.org/spec/23), and 1.0 (spec/13) and 2.0 (spec/15) of libraries of before 2013, which libzmq
still understands.
"""

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
"""Empty part that others follow."""
LAST_PART: Final = b"\x00\x00"


SIGNATURE: Final = b"\xff" + bytes(8) + b"\x7f"
"""First bytes of a greeting, from version 2 on."""


def greeting(mechanism: bytes, *, is_server: bool = False) -> bytes:
    """Make a greeting of version 3.0 with a security mechanism."""
    return SIGNATURE + b"\x03\x00" + mechanism.ljust(20, b"\0") + bytes([is_server]) + bytes(31)


GREETING: Final = greeting(b"NULL")
"""Greeting without security."""
OLD_GREETINGS: Final = {1: b"\x01\x00", 2: SIGNATURE + b"\x01\x05\x00\x00"}
"""Greetings of a DEALER without an identity, by version."""


def raw(url: str, wait_seconds: float = WAIT_SECONDS, source: str = "127.0.0.1") -> socket.socket:
    """Open a connection that says nothing, from a loopback address."""
    port = int(url.rsplit(":", 1)[1])
    return socket.create_connection(("127.0.0.1", port), wait_seconds, source_address=(source, 0))


def connected(
    url: str, wait_seconds: float = WAIT_SECONDS, identity: bytes = b"", source: str = "127.0.0.1"
) -> socket.socket:
    """Open a connection of a DEALER that has sent nothing yet, and reads when it is told to.

    Args:
        identity: routing id that it claims; a library would let it begin with no zero byte.

    Raises:
        OSError: nothing listens there, or the listener doesn't greet.
    """
    connection = raw(url, wait_seconds, source)
    try:
        connection.sendall(GREETING)
        exactly(connection, 64)
        connection.sendall(ready(identity))
        exactly(connection, exactly(connection, 2)[1])
    except OSError:
        connection.close()
        raise
    return connection


def ready(identity: bytes = b"") -> bytes:
    """Make the command that ends the greeting of a DEALER."""
    named = b"\x08Identity" + struct.pack(">I", len(identity)) + identity
    return command(b"\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER" + named)


def command(body: bytes) -> bytes:
    """Make a command: its name, with its length before it, and its contents."""
    return b"\x06" + struct.pack(">Q", len(body)) + body if len(body) > 255 else b"\x04" + bytes([len(body)]) + body


def old_message(version: int, payload: bytes) -> bytes:
    """Make a greeting of version 1 or 2, and a short message."""
    head = bytes([len(payload) + 1, 0]) if version == 1 else bytes([0, len(payload)])
    return OLD_GREETINGS[version] + head + payload


def frame(payload: bytes, more: bool = False) -> bytes:
    """Make a message, or a part that others follow."""
    return head(len(payload), more) + payload


def head(length: int, more: bool = False) -> bytes:
    """Make the head of a message, or part, of ``length`` bytes."""
    return struct.pack(">BQ", LONG | (MORE if more else 0), length)


def exactly(connection: socket.socket, length: int) -> bytes:
    """Read exactly ``length`` bytes.

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
            # A sender with a closed window doesn't learn that the other end has gone: the kernel asks, and waits.
            with suppress(TimeoutError):
                at = (at + connection.send(part[at:])) % len(part)
