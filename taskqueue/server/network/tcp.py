"""What the kernel knows of a TCP connection, by its descriptor; Linux, elsewhere nothing is known."""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

SO_COOKIE: Final = 57
"""A number that no other connection of this machine ever has (asm-generic/socket.h); descriptors are used again."""

UNSPECIFIED: Final = bytes(16)
"""A sockaddr of AF_UNSPEC: to connect a socket there dissolves its connection (connect(2))."""

_libc = ctypes.CDLL(None, use_errno=True)
_progress = struct.Struct("@QQ")
PROGRESS_AT: Final = 120
"""Where struct tcp_info has tcpi_bytes_acked and tcpi_bytes_received (linux/tcp.h, since 4.1)."""


class Progress(NamedTuple):
    """Bytes since the connection began.

    Attributes:
        acked: sent, and received by the other end's kernel.
        received: by this kernel.
    """

    acked: int
    received: int


def progress(fd: int) -> Progress | None:
    """None: it is no TCP connection, or there is none any more."""
    if not hasattr(socket, "TCP_INFO"):
        return None
    info = _option(fd, socket.IPPROTO_TCP, socket.TCP_INFO, PROGRESS_AT + _progress.size)
    return Progress(*_progress.unpack_from(info, PROGRESS_AT)) if len(info) == PROGRESS_AT + _progress.size else None


def cookie(fd: int) -> bytes:
    """Tells this connection from any other; empty: there is none."""
    return _option(fd, socket.SOL_SOCKET, SO_COOKIE, 8)


def address(fd: int) -> str:
    """Of the machine at the other end; empty: nobody knows."""
    with suppress(OSError), _borrowed(fd) as connection:
        if connection.family in (socket.AF_INET, socket.AF_INET6):
            return str(connection.getpeername()[0])
    return ""


def cut(fd: int, expected: bytes) -> bool:
    """End the connection with this cookie, and drop what the kernel has received of it; False: it has ended already.

    ``shutdown`` would leave what was received to be read, half a MiB a connection.
    """
    if expected and cookie(fd) == expected:
        if _libc.connect(fd, UNSPECIFIED, len(UNSPECIFIED)) == 0:
            return True
        with suppress(OSError), _borrowed(fd) as connection:
            connection.shutdown(socket.SHUT_RDWR)
            return True
    return False


def _option(fd: int, level: int, name: int, length: int) -> bytes:
    with suppress(OSError), _borrowed(fd) as connection:
        return connection.getsockopt(level, name, length)
    return b""


@contextmanager
def _borrowed(fd: int) -> Iterator[socket.socket]:
    """A descriptor of libzmq's, as Python's socket, which must not close it."""
    connection = socket.socket(fileno=fd)
    try:
        yield connection
    finally:
        connection.detach()
