"""The connections of the daemon's socket, and how many bytes lie in this process on account of each.

    not taken  bytes that the kernel received, less those that the loop took out of the socket: messages, and
               parts of one that is not whole yet
    unread     bytes that the loop put into the socket, less those that arrived at the other end's kernel

libzmq tells neither, and its own marks count messages, which may be long, or have many parts. The kernel tells the
rest, of TCP; a connection of another kind is bounded by the marks alone.

Rules:
1. What is unread of one connection is at most UNREAD_BYTES and one message; more is dropped. All together it is at
   most UNREAD_BYTES_ALL; beyond it those with the most are cut, until it is UNREAD_BYTES_LEFT.
2. The kernel is asked only when what it said last would forbid a message.
3. A descriptor is used again: a connection is known by its cookie, too, before anything is done to it.
4. The loop does the sums; the watcher, in its own thread, says which connections began and ended, and may cut any.
"""

from __future__ import annotations

import logging
from collections import deque
from threading import Lock
from typing import Final

import zmq

from taskqueue.server.meters import Meters
from taskqueue.server.network import tcp

log = logging.getLogger("taskqueue")

UNREAD_BYTES: Final = 32 << 20
UNREAD_BYTES_ALL: Final = 128 << 20
UNREAD_BYTES_LEFT: Final = 96 << 20
"""Of all, beyond which it is too much when the kernel has been asked; so that it is not asked with each message."""


class Connection:
    """One of the socket's.

    Attributes:
        peer: the routing id; empty until it was heard.
        address: of the other machine; empty if nobody knows.
        taken: bytes that the loop took out of the socket.
        given: bytes that the loop put into the socket.
        acked: of these, what the other end's kernel had confirmed when it was last asked.
        measured: the kernel tells its progress.
        is_cut: nothing is sent by it any more.
    """

    __slots__ = (
        "_acked_before_bytes", "acked_bytes", "address", "cookie", "fd", "is_cut", "measured", "peer",
        "read_bytes", "sent_bytes",
    )  # fmt: skip

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.cookie = tcp.cookie(fd)
        self.peer = b""
        self.address = ""
        self.is_cut = False
        progress = tcp.progress(fd)
        self.measured = progress is not None
        self.read_bytes = progress.received if progress else 0
        self._acked_before_bytes = progress.acked if progress else 0
        self.sent_bytes = self.acked_bytes = 0

    def take(self, length: int) -> None:
        """A part of so many bytes was taken out of the socket."""
        self.read_bytes += length + _header_bytes(length)

    def mark_all_read(self) -> None:
        """All that has arrived was taken."""
        if (progress := tcp.progress(self.fd)) is not None:
            self.read_bytes = progress.received

    @property
    def unread_bytes(self) -> int:
        """Bytes that lie here or on the way, at most; exact when the kernel has been asked."""
        return self.sent_bytes - self.acked_bytes

    @property
    def buffered_bytes(self) -> int:
        """Bytes that lie here or in the kernel on its account, both ways, as the kernel says."""
        progress = tcp.progress(self.fd)
        if progress is None:
            return 0
        unread_bytes = self.sent_bytes - max(0, progress.acked - self._acked_before_bytes)
        return max(0, progress.received - self.read_bytes) + max(0, unread_bytes)

    def refresh_acked(self) -> None:
        """Ask the kernel what of it has been confirmed. What the socket says by itself is not ours: it never counts."""
        progress = tcp.progress(self.fd)
        if progress is None:  # it has ended, and with it all that waited
            self.acked_bytes = self.sent_bytes
            return
        acked_bytes = progress.acked - self._acked_before_bytes
        if acked_bytes > self.sent_bytes:
            self._acked_before_bytes += acked_bytes - self.sent_bytes
            acked_bytes = self.sent_bytes
        self.acked_bytes = acked_bytes


class Connections:
    """All of one socket."""

    def __init__(self, meters: Meters) -> None:
        self._meters = meters
        self._by_fd: dict[int, Connection] = {}
        self._by_peer: dict[bytes, Connection] = {}
        self._closed: deque[Connection] = deque()
        self._unread_bytes = 0
        self._cutting = Lock()

    def __len__(self) -> int:
        return len(self._by_fd)

    # ------------------------------------------------------------------------------------------ the loop's side

    def received_from(self, peer: bytes, message: zmq.Frame) -> Connection:
        """The connection that a message came by, which is taken out of it with that."""
        fd = int(message.get(zmq.SRCFD))
        connection = self._by_peer.get(peer)
        if connection is None or connection.fd != fd:
            connection = self._register(peer, fd, message)
        connection.take(len(message))
        return connection

    def mark_all_read(self, peer: bytes) -> None:
        """Everything that came from this peer was taken."""
        if (connection := self._by_peer.get(peer)) is not None:
            connection.mark_all_read()

    def knows(self, peer: bytes) -> bool:
        """The peer's connection has not ended."""
        return peer in self._by_peer

    def open_to(self, peer: bytes) -> bool:
        """The peer may be sent a message; False: too much that it was sent is unread, or it is being cut."""
        connection = self._by_peer.get(peer)
        if connection is None or connection.unread_bytes < UNREAD_BYTES:
            return connection is None or not connection.is_cut
        return not connection.is_cut and self._refresh_acked(connection) < UNREAD_BYTES

    def sent(self, peer: bytes, size: int) -> None:
        """A message of so many bytes was put into the socket."""
        connection = self._by_peer.get(peer)
        if connection is None or not connection.measured:
            return
        size += _header_bytes(size)
        connection.sent_bytes += size
        self._unread_bytes += size
        if self._unread_bytes >= UNREAD_BYTES_ALL:
            self._cut_slowest()

    def forget_closed(self) -> None:
        """Let go of those that the watcher saw end."""
        while self._closed:
            connection = self._closed.popleft()
            self._unread_bytes -= connection.unread_bytes
            connection.acked_bytes = connection.sent_bytes
            if self._by_peer.get(connection.peer) is connection:
                del self._by_peer[connection.peer]

    def _register(self, peer: bytes, fd: int, message: zmq.Frame) -> Connection:
        connection = self._by_fd.get(fd)
        if connection is None or connection.cookie != tcp.cookie(fd):
            # The watcher has not heard yet that it began, and maybe not that another one has ended.
            self.closed(fd)
            connection = self._by_fd[fd] = Connection(fd)
            connection.read_bytes -= len(message) + _header_bytes(len(message))
        connection.peer = peer
        try:
            connection.address = str(message.get("Peer-Address"))
        except zmq.ZMQError:
            connection.address = ""
        self._by_peer[peer] = connection
        return connection

    def _refresh_acked(self, connection: Connection) -> int:
        """What of it is unread, as the kernel says."""
        before = connection.unread_bytes
        connection.refresh_acked()
        self._unread_bytes -= before - connection.unread_bytes
        return connection.unread_bytes

    def _cut_slowest(self) -> None:
        """Ask the kernel what is unread; if it is too much all the same, cut the connections with most of it.

        Either brings so much that it is not needed again soon.
        """
        self.forget_closed()
        for connection in self._by_unread():
            if self._unread_bytes < UNREAD_BYTES_ALL // 2:
                return
            self._refresh_acked(connection)
        for connection in self._by_unread():
            if self._unread_bytes < UNREAD_BYTES_LEFT:
                return
            self.cut(connection, connection.unread_bytes, "unread")
            self._unread_bytes -= connection.unread_bytes
            connection.acked_bytes = connection.sent_bytes

    def _by_unread(self) -> list[Connection]:
        """Those of which something is unread, the one with most first."""
        return sorted((each for each in self.all() if each.unread_bytes), key=_unread_bytes, reverse=True)

    # ------------------------------------------------------------------------------------------ the watcher's side

    def opened(self, fd: int) -> Connection:
        """A connection has been accepted; the loop may have heard it already."""
        known = self._by_fd.get(fd)
        if known is not None and known.cookie == tcp.cookie(fd):
            return known
        self.closed(fd)
        connection = self._by_fd[fd] = Connection(fd)
        connection.read_bytes = 0
        return connection

    def closed(self, fd: int) -> None:
        """A connection has ended."""
        if (connection := self._by_fd.pop(fd, None)) is not None:
            self._closed.append(connection)

    def all(self) -> list[Connection]:
        """Those that there are now."""
        return list(self._by_fd.values())

    def refuse(self, newest: Connection) -> None:
        """One connection is too many: end the oldest that never said anything, or the newest."""
        silent = (each for each in self.all() if not each.peer and not each.is_cut)
        self._end(next(silent, newest))

    def cut(self, connection: Connection, size: int, why: str) -> None:
        """End a connection on whose account so many bytes lie here; they go with it, soon."""
        address = connection.address or tcp.address(connection.fd)
        if self._end(connection):
            log.warning("connection-cut address=%s why=%s bytes=%d", address, why, size)

    def _end(self, connection: Connection) -> bool:
        connection.is_cut = True
        with self._cutting:
            closed = tcp.cut(connection.fd, connection.cookie)
            self._meters.cut += closed
        return closed


def _header_bytes(length: int) -> int:
    """Of a frame (ZMTP 3.1)."""
    return 9 if length > 255 else 2


def _unread_bytes(connection: Connection) -> int:
    return connection.unread_bytes
