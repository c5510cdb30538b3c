"""The connections of the daemon's socket, and the bytes that each of them occupies in this process and its kernel.

    not read   bytes that the kernel received, less those that the loop read from the socket: messages, and parts of
               an incomplete one
    unread     bytes that the loop wrote to the socket, less those that the peer's kernel acknowledged

libzmq reports neither, and its high-water marks count messages, which may be long, or have many parts. For TCP the
kernel reports the rest. By ipc the high-water mark alone bounds what a peer leaves unread: at most what its last
SENT_MOST messages took. The kernel says whether it has read all that left this process.

Rules:
1. Unread bytes of one connection are at most UNREAD_BYTES and one message; more is dropped. All together are at
   most UNREAD_BYTES_ALL; beyond it the connections with the most are cut, down to UNREAD_BYTES_LEFT.
2. The kernel is asked only when its last answer would forbid a message.
3. Descriptors are reused: a connection is also identified by its cookie before anything is done to it.
4. The loop does the accounting; the guard, in its own thread, reports opened and closed connections, and may cut any.
5. The loop may read from a connection before the guard has heard that it was opened. Until then the guard's
   events about this descriptor concern a former connection, and may be its opening and its end.
6. A connection with a routing id that no library lets a client choose stays without a peer, and counts as silent.
7. The key of a connection is read from its first message, because that costs 4 µs. The guard hears of the end of a
   connection before libzmq serves the next one with its descriptor (``authenticator``), so no connection inherits a
   key. Routing ids that clients choose may come again, so with these the key is read from each message.
8. Messages of a connection whose key was revoked are dropped.
9. A user by ipc is known from libzmq, with the message, and from the kernel, by the descriptor. If they differ, another
   connection has the descriptor by now, and the message is dropped.
10. If connections have names, of a key or a user, the Peer by which the core knows a connection is its routing id with
   its name. So nothing that is meant for one name reaches another that has claimed the same routing id.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Iterator
from threading import Lock
from typing import Final

import zmq
from mypy_extensions import mypyc_attr

from taskqueue.access.access_file import Entry
from taskqueue.protocol.fields import Peer
from taskqueue.server.meters import Meters
from taskqueue.server.network import kernel
from taskqueue.server.network.cut_peers import CutPeers
from taskqueue.server.network.key_ring import KeyRing
from taskqueue.server.network.local_users import user_name

log = logging.getLogger("taskqueue")

UNREAD_BYTES: Final = 32 << 20
UNREAD_BYTES_ALL: Final = 128 << 20
UNREAD_BYTES_LEFT: Final = 96 << 20
"""Unread bytes of all connections at which cutting stops.

It is below the limit, so that the kernel is not asked for each message.
"""

MET_MOST: Final = 10_000
"""Pairs of key and address remembered, so that the log tells of each once."""

LOCAL: Final = "ipc"
"""Address of peers by ipc."""
LOCAL_PARTS: Final = 4
"""Parts of the address that libzmq gives to these: localhost, and numbers of user, group and process."""

SENT_MOST: Final = 160
"""High-water mark of messages to a peer by ipc.

libzmq notes messages as read in steps of half the mark, so 80 places are free if the peer reads: 64 answers that a
session may wait for, and 16 other messages. Of bursts of 63 to a peer that reads, 23 % were lost with a mark of 64.
"""

MADE_BYTES: Final = 5
CHOSEN_BYTES_MOST: Final = 255
"""Length of a routing id above which no library lets a client choose it; nor one that begins with a zero byte."""


class Connection:
    """Connection of the socket.

    Attributes:
        routing_id: empty until its first message.
        peer: what the core knows it by; empty until its first message.
        uid: number of the user at the other end; None: it is not by ipc.
        key: name of its key's owner or its user; empty: connections have no names.
        address: address of the other machine; empty if unknown.
        read_bytes: bytes read from the socket by the loop.
        sent_bytes: bytes written to the socket by the loop.
        acked_bytes: sent bytes that the peer's kernel had acknowledged when it was last asked.
        measured: the kernel reports its progress.
        is_cut: nothing is sent on it any more.
        is_announced: the guard has heard that it was opened.
        is_revoked: it is closed because of its key, and not heard any more.
        public: its public key; empty: there are no keys.
        holder: owner of the key.
        last_sent: bytes of the last messages to a peer by ipc; None: it is by TCP.
        closed_at: unix seconds of its end; 0: it is open.
    """

    __slots__ = (
        "_acked_before_bytes", "acked_bytes", "address", "closed_at", "cookie", "fd", "holder", "is_announced",
        "is_cut", "is_revoked", "key", "last_sent", "measured", "peer", "public", "read_bytes", "routing_id",
        "sent_bytes", "uid",
    )  # fmt: skip

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.cookie = kernel.cookie(fd)
        self.routing_id = self.peer = b""
        self.uid = kernel.peer_uid(fd)
        self.last_sent: deque[int] | None = None if self.uid is None else deque(maxlen=SENT_MOST)
        self.address = self.key = ""
        self.closed_at = 0.0
        self.public = ""
        self.holder: Entry | None = None
        self.is_cut = self.is_announced = self.is_revoked = False
        progress = kernel.progress(fd)
        self.measured = progress is not None
        self.read_bytes = progress.received if progress else 0
        self._acked_before_bytes = progress.acked if progress else 0
        self.sent_bytes = self.acked_bytes = 0

    def take(self, length: int) -> None:
        """Count a message part of ``length`` bytes that was read."""
        self.read_bytes += length + _header_bytes(length)

    def mark_all_read(self) -> None:
        """Count everything that has arrived as read."""
        if (progress := kernel.progress(self.fd)) is not None:
            self.read_bytes = progress.received

    @property
    def is_silent(self) -> bool:
        """Whether the connection is open and nothing was heard on it."""
        return not self.peer and not self.is_cut

    @property
    def unread_bytes(self) -> int:
        """Upper bound of the bytes that wait here or in transit; exact right after ``refresh_acked``."""
        return self.sent_bytes - self.acked_bytes

    @property
    def buffered_bytes(self) -> int:
        """Bytes held here or in the kernel for this connection, in both directions, as the kernel reports.

        By ipc an upper bound of what the peer has not read.
        """
        progress = kernel.progress(self.fd)
        if progress is None:
            return sum(list(self.last_sent)) if self.last_sent and kernel.has_unread(self.fd) else 0
        unread_bytes = self.sent_bytes - max(0, progress.acked - self._acked_before_bytes)
        return max(0, progress.received - self.read_bytes) + max(0, unread_bytes)

    def refresh_acked(self) -> None:
        """Ask the kernel for acknowledged bytes; bytes that the socket sends by itself never count."""
        progress = kernel.progress(self.fd)
        if progress is None:  # it has ended, with all waiting bytes
            self.acked_bytes = self.sent_bytes
            return
        acked_bytes = progress.acked - self._acked_before_bytes
        if acked_bytes > self.sent_bytes:
            self._acked_before_bytes += acked_bytes - self.sent_bytes
            acked_bytes = self.sent_bytes
        self.acked_bytes = acked_bytes


@mypyc_attr(allow_interpreted_subclasses=True)  # tests make one that fails
class Connections:
    """All connections of one socket.

    Args:
        keys: those that may connect; None: there are no keys.
        has_users: users by ipc have names, too.

    Attributes:
        has_names: connections have names, of a key or a user.
        cut_peers: peers whose key was revoked.
        meters: counters of closed connections.
        heard_at: time when the loop last began to read.
        is_awaited: the loop has read everything, and sleeps until more arrives.
    """

    def __init__(self, meters: Meters, keys: KeyRing | None = None, *, has_users: bool = False) -> None:
        self.cut_peers = CutPeers()
        self._keys = keys
        self.has_names = has_users or keys is not None
        self._met: set[tuple[str, str]] = set()
        self.heard_at = 0.0
        self.is_awaited = False
        self.meters = meters
        self._by_fd: dict[int, Connection] = {}
        self._by_peer: dict[bytes, Connection] = {}
        self._by_routing_id: dict[bytes, Connection] = {} if self.has_names else self._by_peer
        self._peers: dict[bytes, bytes] = {}
        self._closed: deque[Connection] = deque()
        self._unread_bytes = 0
        self._cutting = Lock()

    def __len__(self) -> int:
        return len(self._by_fd)

    # ------------------------------------------------------------------------------------------ the loop's side

    def received_from(self, routing_id: bytes, message: zmq.Frame) -> Connection | None:
        """Count a message as read; return its connection; None if libzmq does not know it or it must not be heard."""
        try:
            fd = int(message.get(zmq.SRCFD))
        except zmq.ZMQError:  # a peer of ZMTP 1 or 2
            return None
        if not _is_fair(routing_id):
            return None
        connection = self._by_routing_id.get(routing_id)
        if connection is None or connection.fd != fd or self._is_doubtful(connection, routing_id):
            connection = self._register(routing_id, fd, message)
            if connection is None:
                return None
        connection.take(len(message))
        return None if connection.is_revoked else connection

    def _is_doubtful(self, connection: Connection, routing_id: bytes) -> bool:
        """Whether another connection may have this one's descriptor or routing id by now."""
        if not self.has_names:
            return False
        latest = self._by_fd.get(connection.fd)
        is_latest = latest is None or latest is connection
        return not is_latest or connection.routing_id != routing_id or routing_id[0] != 0

    def cut_peer(self, peer: bytes, why: str) -> None:
        """Close the connection of this peer or routing id, if it is open."""
        if (connection := self._by_peer.get(peer) or self._by_routing_id.get(peer)) is not None:
            self.meters.closed_receive_failed += self.cut(connection, connection.buffered_bytes, why)

    def mark_all_read(self, peer: bytes) -> None:
        """Count everything that came from this peer as read."""
        if (connection := self._by_peer.get(peer)) is not None:
            connection.mark_all_read()

    def knows(self, peer: bytes) -> bool:
        """Whether the peer's connection is open."""
        return peer in self._by_peer

    def open_to(self, peer: bytes) -> bool:
        """Whether the peer may be sent a message: not if too many bytes are unread, or it is being cut."""
        connection = self._by_peer.get(peer)
        if connection is None or connection.unread_bytes < UNREAD_BYTES:
            return not (self.has_names if connection is None else connection.is_cut)
        return not connection.is_cut and self._refresh_acked(connection) < UNREAD_BYTES

    def sent(self, peer: bytes, size: int) -> None:
        """Count a message of ``size`` bytes that was written to the socket."""
        connection = self._by_peer.get(peer)
        if connection is None or not connection.measured:
            if connection is not None and connection.last_sent is not None:
                connection.last_sent.append(size)
            return
        size += _header_bytes(size)
        connection.sent_bytes += size
        self._unread_bytes += size
        if self._unread_bytes >= UNREAD_BYTES_ALL:
            self._cut_slowest()

    def forget_closed(self) -> None:
        """Drop connections that the guard saw close."""
        while self._closed:
            connection = self._closed.popleft()
            self._unread_bytes -= connection.unread_bytes
            connection.acked_bytes = connection.sent_bytes
            if self._keys is not None and connection.key:
                self._keys.note_end(connection.key, connection.closed_at)
            if self._by_routing_id.get(connection.routing_id) is connection:
                del self._by_routing_id[connection.routing_id]
                self._by_peer.pop(self._peers.pop(connection.routing_id, b""), None)

    def _register(self, routing_id: bytes, fd: int, message: zmq.Frame) -> Connection | None:
        """Note whose a message is; None: its connection has ended, and another one has its descriptor."""
        connection = self._by_fd.get(fd)
        if connection is None or connection.cookie != kernel.cookie(fd):
            # The guard has not reported its opening yet, and maybe not the end of its predecessor.
            self._drop(fd)
            connection = self._by_fd[fd] = Connection(fd)
            connection.read_bytes -= len(message) + _header_bytes(len(message))
        try:
            address = kernel.unmapped(str(message.get("Peer-Address")))
        except zmq.ZMQError:
            address = ""
        if self.has_names and address and _uid_in(address) != connection.uid:
            return None
        connection.routing_id, connection.address = routing_id, address if connection.uid is None else LOCAL
        if connection.uid is not None:
            self._place(connection, user_name(connection.uid))
            if self._keys is not None:
                self._keys.note_begin(connection.key, connection.address)
            self._meet("user-met", connection)
        elif self._keys is not None:
            self._identify(connection, message, self._keys)
        else:
            self._place(connection, "")
        return connection

    def _place(self, connection: Connection, name: str) -> None:
        """Have what is sent to this name at its routing id reach this connection, and to no other name there."""
        routing_id = connection.routing_id
        self._by_routing_id[routing_id] = connection
        if not self.has_names:
            connection.peer, connection.key = routing_id, ""
            return
        peer = b"%b\0%b" % (routing_id, name.encode())
        if (former := self._peers.get(routing_id, peer)) != peer:
            self._by_peer.pop(former, None)
        connection.peer, connection.key = peer, name
        self._peers[routing_id], self._by_peer[peer] = peer, connection

    def _identify(self, connection: Connection, message: zmq.Frame, keys: KeyRing) -> None:
        """Read the key of a connection. The guard may have read another list since it admitted the key."""
        try:
            connection.public = str(message.get("User-Id"))
        except zmq.ZMQError:
            connection.public = ""
        holder = connection.holder = keys.holder(connection.public)
        self._place(connection, holder.name if holder is not None else "")
        # Looked up again now that the guard sees the holder: one of the two notices that a key was revoked meanwhile.
        if holder is None or not keys.still_has(holder, connection.public):
            self.revoke(connection)
        else:
            keys.note_begin(holder.name, connection.address)
            self._meet("key-met", connection)

    def _meet(self, event: str, connection: Connection) -> None:
        """Log a name that was not seen at this address before."""
        name = connection.key or user_name(connection.uid or 0)
        if (place := (name, connection.address)) not in self._met:
            if len(self._met) >= MET_MOST:
                self._met.clear()
            self._met.add(place)
            log.info("%s key=%s address=%s", event, *place)

    def _refresh_acked(self, connection: Connection) -> int:
        """Return the unread bytes, as the kernel reports."""
        before = connection.unread_bytes
        connection.refresh_acked()
        self._unread_bytes -= before - connection.unread_bytes
        return connection.unread_bytes

    def _cut_slowest(self) -> None:
        """Refresh the unread bytes from the kernel; if they are still too many, cut the connections with most of them.

        Either frees so much that the next call is not soon.
        """
        self.forget_closed()
        for connection in self._by_unread():
            if self._unread_bytes < UNREAD_BYTES_ALL // 2:
                return
            self._refresh_acked(connection)
        for connection in self._by_unread():
            if self._unread_bytes < UNREAD_BYTES_LEFT:
                return
            self.meters.closed_unread += self.cut(connection, connection.unread_bytes, "unread")
            self._unread_bytes -= connection.unread_bytes
            connection.acked_bytes = connection.sent_bytes

    def _by_unread(self) -> list[Connection]:
        return sorted((each for each in self.all() if each.unread_bytes), key=_unread_bytes, reverse=True)

    # ------------------------------------------------------------------------------------------ the watcher's side

    def follow(self, heard: deque[tuple[bool, int]]) -> Iterator[tuple[bool, Connection]]:
        """Take and apply the guard's events, (it was opened, descriptor), the earliest first.

        Only the last event of a descriptor shows its present connection. A connection that was opened and has ended has
        no cookie any more, and the next one, which the loop may know already, must not be taken for it. An exception
        costs one event.
        """
        left = Counter(fd for _, fd in heard)
        while heard:
            is_open, fd = heard.popleft()
            left[fd] -= 1
            if is_open and not left[fd]:
                yield True, self.opened(fd)
            elif not is_open and (connection := self.closed(fd, is_reused=left[fd] > 0)) is not None:
                yield False, connection

    def opened(self, fd: int) -> Connection:
        """Register an accepted connection; the loop may know it already."""
        connection = self._by_fd.get(fd)
        if connection is None or connection.cookie != kernel.cookie(fd):
            self._drop(fd)
            connection = self._by_fd[fd] = Connection(fd)
            connection.read_bytes = 0
        connection.address = connection.address or kernel.address(fd)
        connection.is_announced = True
        return connection

    def closed(self, fd: int, *, is_reused: bool = False) -> Connection | None:
        """Note that a connection was closed; return it, if it was known.

        Args:
            is_reused: another connection has been opened with its descriptor, which the loop may know already.
        """
        connection = self._by_fd.get(fd)
        if connection is None or not connection.is_announced:
            return None
        if is_reused and connection.cookie == kernel.cookie(fd):
            return None
        self._drop(fd)
        return connection

    def _drop(self, fd: int) -> None:
        if (connection := self._by_fd.pop(fd, None)) is not None:
            connection.is_cut = True
            connection.closed_at = time.time()
            self._closed.append(connection)

    def all(self) -> list[Connection]:
        """List the open connections."""
        return list(self._by_fd.values())

    def heard_until(self, now: float) -> float:
        """Return the time up to which all arrived messages were heard; a busy loop hears nothing."""
        return now if self.is_awaited else self.heard_at

    def peers(self) -> list[bytes]:
        """List routing ids of the open connections that have ever sent a message."""
        return [each.peer for each in self.all() if each.peer and not each.is_cut]

    def refuse(self, newest: Connection) -> None:
        """Close the oldest connection that never sent a message, or else the newest, because there is one too many."""
        silent = (each for each in self.all() if each.is_silent)
        self.meters.closed_crowded += self._end(next(silent, newest))

    def close_silent(self, connection: Connection) -> bool:
        """Close a connection on which nothing was heard; return False if it was heard or closed meanwhile."""
        closed = connection.is_silent and self._end(connection)
        self.meters.closed_silent += closed
        return closed

    def refuse_hasty(self, connection: Connection) -> None:
        """Close a connection of an address that begins too many."""
        self._end(connection)
        self.meters.closed_hasty += 1

    def revoke(self, connection: Connection) -> bool:
        """Close a connection whose key may not connect any more; False: it has ended already."""
        connection.is_revoked = True
        if connection.peer:
            self.cut_peers.add(Peer(connection.peer))
        return self._end(connection)

    def cut_holder(self, connection: Connection, size: int) -> None:
        """Close a connection with ``size`` bytes because the process uses too much memory."""
        self.meters.closed_memory += self.cut(connection, size, "memory")

    def cut(self, connection: Connection, size: int, why: str) -> bool:
        """Close a connection with ``size`` bytes in the process, and log it; return False if it has ended already.

        The bytes are freed soon. The caller counts by reason: each counter has one writer, the loop or the guard.
        """
        address = connection.address or kernel.address(connection.fd)
        is_closed = self._end(connection)
        if is_closed:
            log.warning("connection-cut address=%s why=%s bytes=%d", address, why, size)
        return is_closed

    def _end(self, connection: Connection) -> bool:
        connection.is_cut = True
        with self._cutting:
            return kernel.cut(connection.fd, connection.cookie)


def routing_id_of(peer: bytes) -> bytes:
    """Return the routing id in a Peer with a name, which has no zero byte."""
    return peer.rpartition(b"\0")[0]


def _is_fair(routing_id: bytes) -> bool:
    """Whether libzmq makes such routing ids, a zero byte and four others, or lets a client choose them."""
    return len(routing_id) == MADE_BYTES if routing_id[:1] == b"\0" else 0 < len(routing_id) <= CHOSEN_BYTES_MOST


def _uid_in(address: str) -> int | None:
    """The user's number in the address that libzmq gives a peer by ipc, localhost:UID:GID:PID; None: it is by TCP."""
    parts = address.split(":")
    return int(parts[1]) if len(parts) == LOCAL_PARTS and parts[0] == "localhost" else None


def _header_bytes(length: int) -> int:
    """Return the bytes of a frame's header (ZMTP 3.1)."""
    return 9 if length > 255 else 2


def _unread_bytes(connection: Connection) -> int:
    return connection.unread_bytes
