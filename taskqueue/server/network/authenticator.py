"""Part of the connection guard about keys: answer libzmq who may connect, and close the connections of revoked keys.

    peer ──CURVE handshake──► libzmq ──public key──► zap ──200, the key──► the connection serves
                                                      └──400──────────────► closed; its client is told
    access file ──changed, SIGHUP──► read again ──► connections of keys that lost something: closed, the loop is told

libzmq asks by ZAP (RFC 27) after a peer has proven to have its key. The key in the answer comes with each message of
the connection, as its User-Id. It also asks about peers by ipc, which the mode of the socket file has let in.

1. Before each answer the ends of connections are read: see ``connections``.
2. A key that expires is like one that is revoked at that moment. If its owner loses a right or projects, its
   connections are closed, too: its client connects again, and loses the leases and waits of its former rights. The same
   holds for a user without a connection, for whom the web process speaks.
3. Of an address that begins more than HASTY_MOST connections within a second, the others are closed at once, before
   their handshakes, each of which costs the daemon 1 ms.
4. If more than HASTY_MOST strangers, addresses from which no key was admitted, came within a second, strangers begin
   HASTY_MOST connections in all within the next. So a flood from many addresses leaves those at work alone.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Final

import zmq

from taskqueue.access.key_file import SHOWN_CHARS
from taskqueue.server.clock import ticks
from taskqueue.server.log import SparseLog, quoted
from taskqueue.server.meters import Meters
from taskqueue.server.network import kernel
from taskqueue.server.network.connections import Connection, Connections
from taskqueue.server.network.file_watch import FileWatch
from taskqueue.server.network.key_ring import KeyRing

log = logging.getLogger("taskqueue")

HASTY_MOST: Final = 50
"""Connections that one address may begin in a second, if they need a handshake with keys."""
KNOWN_MOST: Final = 10_000
"""Addresses remembered because a key was admitted from there; the one met first is forgotten first."""
EXPIRY_SECONDS_MOST: Final = 86_400.0
"""Longest sleep until a key expires; poll(2) takes no more than 24 days."""
TCP_DOMAIN: Final = b"taskqueue"
IPC_DOMAIN: Final = b"taskqueue-ipc"
"""Domains of the addresses, by which ZAP tells them apart."""
ENDPOINT: Final = "inproc://zeromq.zap.01"
VERSION: Final = b"1.0"


class Zap:
    """Answerer of libzmq's questions who may connect, for all sockets of a context, in one thread."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], keys: KeyRing, meters: Meters) -> None:
        self._keys = keys
        self._meters = meters
        self._refusals = SparseLog()
        self._known: dict[str, None] = {}
        # Not REP, which is stuck for ever if an answer is left out.
        self._socket: zmq.Socket[bytes] = context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.RCVHWM, 0)
        self._socket.bind(ENDPOINT)

    def fileno(self) -> int:
        """Return the descriptor that signals once when questions may have come; ``answer`` reads all of them."""
        return self._socket.fileno()

    def answer(self, prepare: Callable[[], None]) -> None:
        """Answer all questions that have come; ``prepare`` is called before each answer."""
        with suppress(zmq.Again):
            while True:
                sender, _, _, request, domain, address, _, _, *shown = self._socket.recv_multipart(zmq.NOBLOCK)
                prepare()
                is_local = domain == IPC_DOMAIN
                verdict = (b"200", b"OK", b"") if is_local else self._verdict(b"".join(shown[:1]).hex(), address)
                self._socket.send_multipart([sender, b"", VERSION, request, *verdict, b""])

    def knows(self, address: str) -> bool:
        """Whether a key was admitted from this address."""
        return address in self._known

    def close(self) -> None:
        """Answer no more; libzmq then refuses each key."""
        self._socket.close()

    def _verdict(self, public: str, address: bytes) -> tuple[bytes, bytes, bytes]:
        """Status code, its text, and the User-Id."""
        if self._keys.admit(public) is not None:
            self._meet(kernel.unmapped(address.decode("ascii", "replace")))
            return b"200", b"OK", public.encode()
        self._meters.keys_refused += 1
        if count := self._refusals.count(ticks()):
            shown = address.decode("ascii", "replace")
            log.warning("key-refused count=%d key=%s address=%s", count, public[:SHOWN_CHARS], shown)
        return b"400", b"unknown key", b""

    def _meet(self, address: str) -> None:
        self._known[address] = None
        if len(self._known) > KNOWN_MOST:
            del self._known[next(iter(self._known))]


class Authenticator:
    """Part of the guard that answers who may connect, follows the access file, and closes connections of revoked keys.

    Args:
        settle: reads which connections opened and closed; called before each answer.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        connections: Connections,
        keys: KeyRing,
        settle: Callable[[], None],
    ) -> None:
        self._connections = connections
        self._keys = keys
        self._settle = settle
        self._zap = Zap(context, keys, connections.meters)
        self._watch = FileWatch(keys.path)
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._expires_at = self._next_expiry()
        self._owners = keys.owners()
        self._haste = SparseLog()
        self._second = 0
        self._is_flooded = False
        self._strangers = 0
        self._begun: Counter[str] = Counter()

    def filenos(self) -> list[int]:
        """Descriptors that are readable when there is something to ``serve``."""
        return [fd for fd in (self._zap.fileno(), self._watch.fileno(), self._wake) if fd >= 0]

    def wake(self) -> None:
        """Have the access file read, whether it has changed or not; any thread may call this."""
        os.eventfd_write(self._wake, 1)

    def serve(self) -> None:
        """Answer who may connect, after having read the access file if it has changed."""
        if self._is_woken() | self._watch.has_changed():
            self._read_keys()
        elif time.time() >= self._expires_at:
            self._cut_revoked()
        self._zap.answer(self._settle)

    def seconds_to_expiry(self) -> float:
        """Seconds until a key expires, EXPIRY_SECONDS_MOST at most; inf: none does."""
        if self._expires_at == inf:
            return inf
        return min(max(0.0, self._expires_at - time.time()), EXPIRY_SECONDS_MOST)

    def is_hasty(self, connection: Connection) -> bool:
        """Count a new connection; True if its address has begun too many in this second."""
        now = ticks()
        if int(now) != self._second:
            self._is_flooded = sum(not self._zap.knows(address) for address in self._begun) > HASTY_MOST
            self._second, self._strangers = int(now), 0
            self._begun.clear()
        self._begun[connection.address] += 1
        begun = self._begun[connection.address]
        if self._is_flooded and begun <= HASTY_MOST and not self._zap.knows(connection.address):
            begun = self._strangers = self._strangers + 1
        is_hasty = begun > HASTY_MOST
        if is_hasty and (count := self._haste.count(now)):
            log.warning("connections-hasty count=%d address=%s", count, connection.address)
        return is_hasty

    def close(self) -> None:
        """Answer no more."""
        self._zap.close()
        self._watch.close()
        os.close(self._wake)

    def _is_woken(self) -> bool:
        with suppress(BlockingIOError):
            return os.eventfd_read(self._wake) > 0
        return False

    def _read_keys(self) -> None:
        self._keys.read_again()
        if self._keys.trouble:
            log.error("keys-unreadable reason=%s; new connections of its keys are refused", quoted(self._keys.trouble))
        else:
            log.info("keys-read names=%d", self._keys.names())
        self._cut_revoked()

    def _cut_revoked(self) -> None:
        """Close the connections of keys that were revoked, have expired, or whose owner may do less than before.

        The loop is told of such owners: one may hold tasks without a connection, or by another one than that at which
        its sessions were last heard, such as that of a web process.
        """
        self._expires_at = self._next_expiry()
        cut: Counter[tuple[str, str]] = Counter()
        for connection in self._connections.all():
            holder = connection.holder
            if holder is None or connection.is_revoked:
                continue
            latest = self._keys.latest(holder, connection.public)
            if latest is None or holder.has_more_than(latest):
                event = "key-revoked" if latest is None else "key-narrowed"
                cut[event, holder.name] += self._connections.revoke(connection)
            else:
                connection.holder = latest
        self._connections.meters.closed_revoked += cut.total()
        before, self._owners = self._owners, self._keys.owners()
        for owner, former in before.items():
            present = self._owners.get(owner)
            if present is None or former.has_more_than(present):
                self._connections.cut_peers.add(owner)
        for (event, name), count in cut.items():
            log.warning("%s key=%s connections=%d", event, name, count)

    def _next_expiry(self) -> float:
        return time.time() + self._keys.seconds_to_expiry()
