"""Connections that speak as much ZMTP 3.0 as they like (rfc.zeromq.org/spec/23)."""

from __future__ import annotations

import socket
import struct

WAIT_SECONDS = 30


def raw(url: str) -> socket.socket:
    """A connection that says nothing."""
    return socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1])), WAIT_SECONDS)


def connected(url: str) -> socket.socket:
    """A connection of a DEALER that has sent nothing yet, and reads when it is told to."""
    connection = raw(url)
    connection.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(16 + 1 + 31))
    exactly(connection, 64)
    ready = b"\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER\x08Identity\x00\x00\x00\x00"
    connection.sendall(b"\x04" + bytes([len(ready)]) + ready)
    exactly(connection, exactly(connection, 2)[1])
    return connection


def frame(payload: bytes, more: bool = False) -> bytes:
    """A message, or a part of one that has more."""
    return bytes([2 + more]) + struct.pack(">Q", len(payload)) + payload


def exactly(connection: socket.socket, length: int) -> bytes:
    """So many bytes, as soon as they have come."""
    received = b""
    while len(received) < length:
        received += connection.recv(length - len(received))
    return received
