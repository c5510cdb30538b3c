"""The daemon's ROUTER socket: frames in and frames out, never blocking.

A peer that has disconnected, or does not read, is an ordinary event: messages for it are dropped and counted, and its
next ``hello`` recovers. A message is one frame; a peer that sends several parts gets an error. The socket delivers all
parts of a message one after the other; if there are very many, dropping them is spread over turns, so that signals,
deadlines and replies don't wait for the last one.

Peers of ZMTP 1 and 2, for which libzmq takes HTTP and many other protocols, are disconnected at their greeting: libzmq
knows no descriptor of their messages. If one arrives all the same, it is dropped.

Bounds per peer:
* RECEIVE_MARK messages received and not yet read; beyond it TCP makes the peer's sends wait.
* SEND_MARK messages that it hasn't read, and as many bytes as ``connections`` allows; by ipc SENT_MOST messages.
  Further ones are dropped.
* twice ``max_message`` bytes per message; libzmq closes the connection that sends more. Between the two the peer
  gets an error reply, which says more than a closed connection.
The memory of all peers together is bounded by ``connection_guard``.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import Final, NamedTuple

import zmq
from mypy_extensions import mypyc_attr

from taskqueue.access.access_file import Entry
from taskqueue.errors import ConfigError
from taskqueue.protocol.callers import EVERYBODY, USER, Caller, Role
from taskqueue.protocol.fields import Peer
from taskqueue.server.clock import ticks
from taskqueue.server.log import SparseLog, quoted
from taskqueue.server.meters import Meters
from taskqueue.server.network.authenticator import IPC_DOMAIN, TCP_DOMAIN
from taskqueue.server.network.connection_guard import SILENT_SECONDS, ConnectionGuard
from taskqueue.server.network.connections import SENT_MOST, Connections, routing_id_of
from taskqueue.server.network.cut_peers import CutPeers
from taskqueue.server.network.key_ring import KeyRing
from taskqueue.server.network.local_users import LocalUsers
from taskqueue.server.network.socket_file import IPC, SocketLock, closed_files, let_connect, path_of

log = logging.getLogger("taskqueue")

NOW: Final = int(zmq.NOBLOCK)
MORE_NOW: Final = int(zmq.NOBLOCK | zmq.SNDMORE)
"""Flags as plain numbers: joining two of pyzmq's enumeration for each message took a fifth of sending it."""

DRAIN_FRAMES: Final = 1024
"""Frames received in one turn, at most."""
DRAIN_SECONDS: Final = 0.005
"""Seconds spent on receiving in one turn, at most."""

RECEIVE_MARK: Final = 8
"""High-water mark of received messages of any length; enough for libzmq's I/O thread to go on while the loop reads."""
RECEIVE_BYTES: Final = 128 << 10
"""Kernel buffer of a connection.

libzmq's I/O thread reads all of it at once, so large messages on a hundred connections delay a small one by as long as
that takes: 32 ms at the median, with 256 KiB 50. 128 KiB a round trip are 12 MB/s over 10 ms.
"""
BACKLOG: Final = 4096
"""Connections that the kernel keeps until libzmq accepts them; one more waits for a second before it tries again.

With libzmq's own 100 that happened to some of any few hundred that came at once.
"""
SEND_MARK: Final = 2048
"""High-water mark of messages to send.

Unread messages are mostly ``select``, whose tasks a fetcher's capacity bounds. They may be small and many: timers that
come due one by one, to a fetcher that pauses for a moment. A fetcher that misses one is idle until it says hello again.
"""
NO_PEER: Final = Peer(b"")
"""Sender of messages to drop."""
PARTS_AT_ONCE: Final = 1000
"""Parts dropped before the clock is read again."""
LINGER_MS: Final = 1000
"""Milliseconds for which a stopping daemon tries to transmit sent messages."""
BIND_HINTS: Final = {
    errno.EADDRINUSE: "; stop the program that listens there, perhaps a daemon, or name another address with --bind",
    errno.ENODEV: "; this machine has no such address; an IPv6 address needs brackets: tcp://[::1]:7400",
}
"""Advice on errors of binding an address."""
EVERYWHERE: Final = "tcp://*:"
"""Beginning of the address of all interfaces, of IPv6 and of IPv4."""
NO_IPV6: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT, errno.ENODEV)
"""Errors of ``bind`` on a machine without IPv6."""
HANDSHAKE_MS: Final = 5000
"""Milliseconds that a handshake with keys may take."""
KEEPALIVE_IDLE_SECONDS: Final = 60
"""Silence after which the kernel probes a connection, so that connections of vanished machines are closed."""
KEEPALIVE_PROBES: Final = 3
KEEPALIVE_PROBE_SECONDS: Final = 10
"""Pause between two probes; after KEEPALIVE_PROBES without an answer, 90 s after the last byte, the connection ends."""

_libc: Final = ctypes.CDLL(None)


class Frame(NamedTuple):
    """Received message.

    Attributes:
        first: first part.
        parts: number of parts; the protocol requires 1.
        address: address of the peer's machine, such as 10.0.0.7; empty if unknown.
        key: name of the owner of the peer's key, or of its user; empty if connections have no names.
    """

    peer: Peer
    first: zmq.Frame
    parts: int
    address: str = ""
    key: str = ""

    @property
    def payload(self) -> bytes:
        """Bytes of the first part, copied at the first use."""
        return self.first.bytes

    @property
    def size(self) -> int:
        """Number of bytes of the first part."""
        return len(self.first)


@mypyc_attr(allow_interpreted_subclasses=True)  # tests record its messages
class Router:
    """ROUTER socket, which binds its addresses when it is created.

    libzmq takes the options of an address when it is bound. So those by ipc come first, with marks of their own and
    without keys, because the file system decides who reaches them.

    Args:
        bind: one address or several; a host of * means all of this machine's, a port of * a free one.
        max_message: bytes; the module's docstring describes the treatment of longer ones.
        memory: bound of the process's memory in bytes; near it connections are cut.
        connections: number that may be open.
        silent_seconds: seconds after which a connection is closed on which nothing was heard.
        keys: keys that may connect by TCP; None if every peer may.
        ipc_role: role of every user who connects by ipc.
        ipc_group: number of the group whose members may connect by ipc; -1: that of this process.

    Attributes:
        at_hand: peer whose message is being received or decoded; NO_PEER if unknown.
        memory_bytes: bound of the process's memory.
        keys: keys that may connect by TCP; None if every peer may, or no address is one of TCP.
        has_names: callers differ, by key or user.
        cut_peers: peers whose key was revoked, with a descriptor that is readable while there are some.
        endpoints: addresses that it listens on, in the order of ``bind``, with the chosen port if that was left open.
        endpoint: the first one by TCP; if there is none, the first by ipc.

    Raises:
        ConfigError: an address can't be used.
    """

    def __init__(
        self,
        bind: str | Sequence[str],
        max_message: int,
        meters: Meters,
        memory: int = 1 << 30,
        connections: int = 1 << 20,
        silent_seconds: float = SILENT_SECONDS,
        keys: KeyRing | None = None,
        ipc_role: Role = "admin",
        ipc_group: int = -1,
    ) -> None:
        addresses = [bind] if isinstance(bind, str) else bind
        if all(address.startswith(IPC) for address in addresses):
            keys = None
        self.keys: KeyRing | None = keys
        self._meters = meters
        self._failures = SparseLog()
        self.at_hand = NO_PEER
        self.memory_bytes = memory
        self._users = LocalUsers(ipc_role)
        self._connections = Connections(meters, keys, has_users=ipc_role != "admin")
        self.has_names: bool = self._connections.has_names
        self.cut_peers: CutPeers = self._connections.cut_peers
        self._unfinished: Frame | None = None
        _seed_routing_ids()
        self._context = zmq.Context()
        self.socket: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        # The base class's method: the options that Socket adds took more than half of sending a message.
        self._send: Callable[[bytes, int], object] = super(zmq.Socket, self.socket).send
        self._locks = ExitStack()
        self._configure(max_message)
        self._guard = ConnectionGuard(
            self._context, self.socket, self._connections, memory, connections, silent_seconds, keys
        )
        try:
            bound = {each: self._bind_file(each) for each in addresses if each.startswith(IPC)}
            self._prepare_tcp(keys)
            bound |= {each: self._bind(each) for each in addresses if not each.startswith(IPC)}
            for path in filter(None, map(path_of, addresses)):
                let_connect(path, ipc_group)
        except ConfigError:
            self.close()
            raise
        self.endpoints = [bound[address] for address in addresses]
        self.endpoint = next((each for each in self.endpoints if not each.startswith(IPC)), self.endpoints[0])

    def caller_of(self, name: str) -> Caller:
        """Return the caller with the name of a key or user."""
        if name.startswith(USER):
            return self._users.caller_of(name)
        return EVERYBODY if self.keys is None else self.keys.caller_of(name)

    def speaker(self, name: str) -> Caller | None:
        """Return the caller for whom a web process speaks; None if no user has this name."""
        return None if self.keys is None else self.keys.speaker(name)

    def user(self, digest: str, name: str) -> Entry | None:
        """Return the user with this token or, without a digest, of this name; None if there is none."""
        return None if self.keys is None else self.keys.user(digest, name)

    def connected_names(self) -> list[str]:
        """Name of each open connection."""
        return [each.key for each in self._connections.all() if not each.is_cut]

    def _configure(self, max_message: int) -> None:
        self.socket.setsockopt(zmq.ROUTER_HANDOVER, 0)
        self.socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        # With a domain libzmq serves no peer of ZMTP 1 or 2, because these can't authenticate.
        self.socket.setsockopt(zmq.ZAP_DOMAIN, IPC_DOMAIN)
        self.socket.setsockopt(zmq.RCVHWM, RECEIVE_MARK)
        self.socket.setsockopt(zmq.RCVBUF, RECEIVE_BYTES)
        self.socket.setsockopt(zmq.BACKLOG, BACKLOG)
        self.socket.setsockopt(zmq.SNDHWM, SENT_MOST)
        self.socket.setsockopt(zmq.MAXMSGSIZE, 2 * max_message)
        self.socket.setsockopt(zmq.LINGER, LINGER_MS)
        self.socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
        self.socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, KEEPALIVE_IDLE_SECONDS)
        self.socket.setsockopt(zmq.TCP_KEEPALIVE_CNT, KEEPALIVE_PROBES)
        self.socket.setsockopt(zmq.TCP_KEEPALIVE_INTVL, KEEPALIVE_PROBE_SECONDS)

    def _prepare_tcp(self, keys: KeyRing | None) -> None:
        """Set what differs for addresses by TCP. A connection by ipc keeps its marks: none has been heard yet."""
        self.socket.setsockopt(zmq.SNDHWM, SEND_MARK)
        self.socket.setsockopt(zmq.ZAP_DOMAIN, TCP_DOMAIN)
        if keys is not None:
            self._demand_keys(keys)

    def _demand_keys(self, keys: KeyRing) -> None:
        """Refuse peers that do not prove to have a key of the ring."""
        self.socket.setsockopt(zmq.CURVE_SERVER, 1)
        self.socket.setsockopt(zmq.CURVE_SECRETKEY, bytes.fromhex(keys.server.secret))
        # Without it a peer that comes while nothing answers would be let in.
        self.socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
        self.socket.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)

    def read_keys(self) -> None:
        """Have the access file read again."""
        self._guard.read_keys()

    def _bind_file(self, address: str) -> str:
        """Listen on a socket file, which this user alone may use at first."""
        if (path := path_of(address)) is not None:
            self._locks.enter_context(closing(SocketLock(path)))
        with closed_files():
            return self._bound(address)

    def _bind(self, bind: str) -> str:
        """Listen; on all addresses of IPv4 alone if the machine has no IPv6."""
        is_everywhere = bind.startswith(EVERYWHERE)
        self.socket.setsockopt(zmq.IPV6, int("[" in bind or is_everywhere))
        endpoint = self._bound(bind, NO_IPV6 if is_everywhere else ())
        if not endpoint:
            self.socket.setsockopt(zmq.IPV6, 0)
            endpoint = self._bound(bind)
        # libzmq falls back by itself, too, but silently.
        if bind.startswith(EVERYWHERE) and "[" not in endpoint:
            log.warning("ipv6-missing endpoint=%s; clients reach the daemon by IPv4 only", endpoint)
        return endpoint

    def _bound(self, address: str, passing: Sequence[int] = ()) -> str:
        """Bind an address; return it as libzmq writes it, or nothing after an error that is ``passing``."""
        try:
            self.socket.bind(address)
        except zmq.ZMQError as error:
            number = error.errno or 0
            if number in passing:
                return ""
            raise ConfigError(
                f"can't listen on {address}: {zmq.strerror(number)}{BIND_HINTS.get(number, '')}"
            ) from None
        return self.socket.get_string(zmq.LAST_ENDPOINT)

    def drain(self) -> Iterator[Frame]:
        """Yield received frames, up to the bounds of a turn; the caller's time between them counts, too."""
        self._connections.forget_closed()
        began = ticks()
        for _ in range(DRAIN_FRAMES):
            frame = self._receive(began + DRAIN_SECONDS) if ticks() < began + DRAIN_SECONDS else None
            if frame is None:
                break
            if frame.peer:
                yield frame
            else:
                self._meters.dropped += 1
        self._connections.heard_at = began

    def give_up(self, error: Exception) -> None:
        """Count and log that receiving or decoding a message failed, and cut its connection, if it is known.

        Raises:
            zmq.ZMQError: the socket itself can't be used any more.
        """
        if self.socket.getsockopt(zmq.RCVMORE):
            self._unfinished = Frame(NO_PEER, zmq.Frame(), 1)  # counted when its last part is dropped
        else:
            self._meters.dropped += 1
        if count := self._failures.count(ticks()):
            reason = f"{type(error).__name__}: {error}"
            log.error("receive-failed count=%d error=%s", count, quoted(reason), exc_info=error)
        self._connections.cut_peer(self.at_hand, "receive-failed")

    def send(self, peer: Peer, payload: bytes) -> bool:
        """Send without blocking; return False if the peer has disconnected, or does not read."""
        if not self._connections.open_to(peer):
            self._meters.undelivered += 1
            return False
        try:
            self._send(routing_id_of(peer) if self.has_names else peer, MORE_NOW)
            self._send(payload, NOW)
        except zmq.ZMQError as error:
            if error.errno not in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                raise
            self._meters.undelivered += 1
            return False
        self._meters.frames_out += 1
        self._meters.bytes_out += len(payload)
        self._connections.sent(peer, len(payload))
        return True

    def await_messages(self, sleep: Callable[[], None]) -> None:
        """Sleep until a message arrives, or for another reason; connections silent meanwhile are truly silent."""
        self._connections.is_awaited = True
        sleep()
        self._connections.is_awaited = False

    def peers(self) -> list[Peer]:
        """List the connected peers that have ever sent a message."""
        return [Peer(peer) for peer in self._connections.peers()]

    def reaches(self, peer: Peer) -> bool:
        """Whether the peer is connected and reads."""
        return self._connections.knows(peer) and self._connections.open_to(peer)

    def close(self) -> None:
        """Release the address, after LINGER_MS at most."""
        self._guard.close()
        self.socket.close()
        self._context.term()
        self.cut_peers.close()
        self._locks.close()

    def _receive(self, until: float) -> Frame | None:
        """Receive the next message; None without one, or if dropping its further parts takes longer than ``until``."""
        self.at_hand = NO_PEER
        if self._unfinished is not None:
            return self._drop_parts(self._unfinished, until)
        try:
            self.at_hand = Peer(self.socket.recv(NOW))
        except zmq.Again:
            return None
        message = self.socket.recv(0, False)
        connection = self._connections.received_from(self.at_hand, message)
        self._meters.frames_in += 1
        self._meters.bytes_in += len(message)
        frame = (
            Frame(Peer(connection.peer), message, 1, connection.address, connection.key)
            if connection
            else Frame(NO_PEER, message, 1)
        )
        return self._drop_parts(frame, until) if message.more else frame

    def _drop_parts(self, frame: Frame, until: float) -> Frame | None:
        """Drop further parts of a message; return it after the last one, or None if the next turn must go on."""
        self._unfinished = None
        receive, parts, more = self.socket.recv, frame.parts, True
        while more:
            more = receive(0, False).more
            parts += 1
            if parts % PARTS_AT_ONCE == 0 and more and ticks() >= until:
                self._unfinished = frame._replace(parts=parts)
                return None
        self._connections.mark_all_read(frame.peer)
        return frame._replace(parts=parts)


def _seed_routing_ids() -> None:
    """Make the next socket begin with a random routing id.

    libzmq numbers its connections from a value of libc's rand(), which is the same in each process. It ends the process
    if the next number is taken, as by a connection that claims it.
    """
    _libc.srand(int.from_bytes(os.urandom(4)))
