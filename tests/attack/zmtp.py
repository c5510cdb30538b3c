"""A connection that speaks ZeroMQ's wire format itself, to send what no ZeroMQ library would.

Source: ZMTP 3.0 (rfc.zeromq.org/spec/23), the mechanism NULL and nothing else.
"""

from __future__ import annotations

import socket
from struct import pack
from typing import Final

GREETING: Final = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
MORE: Final = 1
LONG: Final = 2
COMMAND: Final = 4
EMPTY_PART: Final = b"\x01\x00"
"""A part of no bytes that others follow."""
LAST_PART: Final = b"\x00\x00"

CONNECT_SECONDS: Final = 10.0


def part(payload: bytes, *, more: bool = False) -> bytes:
    """A part of a message, the last one unless there are more."""
    return part_head(len(payload), more=more) + payload


def part_head(length: int, *, more: bool = False) -> bytes:
    """What goes before a part of so many bytes."""
    flags = MORE if more else 0
    return pack(">BB", flags, length) if length < 256 else pack(">BQ", flags | LONG, length)


def connect(url: str) -> socket.socket:
    """A connection to a ``tcp://`` address, as that of a DEALER; it waits CONNECT_SECONDS for each step.

    Raises:
        OSError: nobody is there, or whoever is there says nothing.
    """
    host, _, port = url.removeprefix("tcp://").rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS)
    try:
        connection.sendall(GREETING)
        _receive(connection, len(GREETING))
        ready = b"\x05READY" + _property(b"Socket-Type", b"DEALER") + _property(b"Identity", b"")
        connection.sendall(pack(">BB", COMMAND, len(ready)) + ready)
        _, length = _receive(connection, 2)
        _receive(connection, length)
    except OSError:
        connection.close()
        raise
    return connection


def _property(name: bytes, value: bytes) -> bytes:
    return pack(">B", len(name)) + name + pack(">I", len(value)) + value


def _receive(connection: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        piece = connection.recv(count - len(received))
        if not piece:
            raise ConnectionResetError("closed while it was greeted")
        received += piece
    return received
