"""The kernel's facts about a connection by TCP or ipc, by its descriptor; independent of the rest of the daemon.

Linux only; elsewhere nothing is known.
"""

from __future__ import annotations

import ctypes
import socket
import struct
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fcntl import ioctl
from typing import Final, NamedTuple

SO_COOKIE: Final = 57
"""Socket option with an id that no other connection of this machine ever has (asm-generic/socket.h).

Descriptors are reused, these ids are not.
"""

UNSPECIFIED: Final = bytes(16)
"""Bytes of a sockaddr of AF_UNSPEC: connecting a socket to it dissolves its connection (connect(2))."""

MAPPED: Final = "::ffff:"
"""Prefix of an IPv4 address that is written as one of IPv6 (RFC 4291, 2.5.5.2)."""

_libc = ctypes.CDLL(None, use_errno=True)
_progress = struct.Struct("@QQ")
_credentials = struct.Struct("@iII")
_int = struct.Struct("@i")
PROGRESS_AT: Final = 120
"""Offset of tcpi_bytes_acked and tcpi_bytes_received in struct tcp_info (linux/tcp.h, since 4.1)."""


class Progress(NamedTuple):
    """Bytes since the connection began.

    Attributes:
        acked: bytes sent, and acknowledged by the peer's kernel.
        received: bytes received by this kernel.
    """

    acked: int
    received: int


def progress(fd: int) -> Progress | None:
    """Return the progress of a connection; None if it is closed, or not of TCP."""
    if not hasattr(socket, "TCP_INFO"):
        return None
    info = _option(fd, socket.IPPROTO_TCP, socket.TCP_INFO, PROGRESS_AT + _progress.size)
    return Progress(*_progress.unpack_from(info, PROGRESS_AT)) if len(info) == PROGRESS_AT + _progress.size else None


def cookie(fd: int) -> bytes:
    """Return the id of this connection among all; empty if there is none."""
    return _option(fd, socket.SOL_SOCKET, SO_COOKIE, 8)


def address(fd: int) -> str:
    """Return the address of the peer's machine; empty if unknown."""
    with suppress(OSError), _borrowed(fd) as connection:
        if connection.family in (socket.AF_INET, socket.AF_INET6):
            return unmapped(str(connection.getpeername()[0]))
    return ""


def peer_uid(fd: int) -> int | None:
    """Return the number of the user at the other end of an ipc connection; None if it is one of TCP, or closed.

    The kernel took it down when the peer connected (SO_PEERCRED, unix(7)).
    """
    with suppress(OSError), _borrowed(fd) as connection:
        if connection.family == socket.AF_UNIX:
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _credentials.size)
            return int(_credentials.unpack(credentials)[1])
    return None


def has_unread(fd: int) -> bool:
    """Whether the kernel has bytes that the peer of an ipc connection has not read yet (SIOCOUTQ)."""
    with suppress(OSError):
        return bool(_int.unpack(ioctl(fd, termios.TIOCOUTQ, bytes(_int.size)))[0])
    return False


def unmapped(address: str) -> str:
    """Shorten an address such as ``::ffff:10.0.0.1``, as sockets of both families have, to IPv4; others stay."""
    return address.removeprefix(MAPPED) if "." in address else address


def cut(fd: int, expected: bytes) -> bool:
    """Close the connection with this cookie, and drop its received data; return False if it is closed already.

    ``shutdown`` would leave received data to be read, half a MiB a connection.
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
    """Wrap a descriptor of libzmq in a Python socket, without closing it at the end."""
    connection = socket.socket(fileno=fd)
    try:
        yield connection
    finally:
        connection.detach()
