"""Keep the process's memory and open files within bounds: a thread cuts the connections that use the most.

    monitor ──opened, closed──►┌───────┐   memory above CUT_AT of the bound: cut the connections that hold most
    arrivals ───first byte────►│ check │   more connections than files: close a silent one
                               └───────┘   nothing heard for SILENT_SECONDS, or on too many of one address: close
                                           memory has been freed: trim the heap

The loop can't do it: libzmq delivers a message when all its parts are there, so it never sees the memory of an endless
one, and a turn may take longer than a peer needs to send gigabytes.

Rules:
1. It sleeps until a connection opens or closes, or data arrives; a connection on which data has arrived is not watched
   again before the next check. An idle daemon does no checks. The only timers are that of a planned trim, and that of
   the oldest connection on which nothing was heard yet.
2. A check costs one read of /proc. Only above CUT_AT of the bound is the kernel asked about each connection, and not
   again within SETTLE_SECONDS, because freeing takes a moment, or within ten times the duration of asking.
3. A connection that holds less than LEAST_BYTES is never cut: it can't fill the memory.
4. A client says hello as soon as it is connected. A silent connection takes a file, and may have claimed a routing id
   that libzmq would give to another connection, which ends the process: so few are kept, and none for long.
5. With keys, it answers who may connect (``authenticator``), after it has read which connections ended.
6. It never ends before ``close``: exceptions are counted and logged, and after AGAIN_SECONDS it goes on.
"""

from __future__ import annotations

import logging
import os
import select
import struct
import threading
from collections import OrderedDict, deque
from contextlib import suppress
from math import inf
from typing import Final

import zmq

from taskqueue.server.clock import ticks
from taskqueue.server.limits import ProcessMemory
from taskqueue.server.log import SparseLog, quoted
from taskqueue.server.network.authenticator import Authenticator
from taskqueue.server.network.connections import Connection, Connections
from taskqueue.server.network.key_ring import KeyRing

log = logging.getLogger("taskqueue")

CUT_AT: Final = 0.8
CUT_TO: Final = 0.6
"""Fraction of the bound down to which connections are cut."""
LEAST_BYTES: Final = 16 << 10
"""Bytes of a connection below which it is never cut.

A hundred connections full of empty parts, of which 2 bytes take 64 in memory, hold 50 MiB with that.
"""
LOOK_SECONDS: Final = 0.05
"""Pause between two checks while data arrives."""
SOON_SECONDS: Final = 0.01
"""Pause between two checks when more than half of the bound is used: a loopback interface brings 20 MB meanwhile."""
SETTLE_SECONDS: Final = 0.03
TRIM_SECONDS: Final = 1.0
TRIM_SECONDS_MOST: Final = 60.0
"""Pause between trims of the heap, at most; it doubles from TRIM_SECONDS while trims free less than LITTLE_BYTES."""
TRIM_BYTES: Final = 64 << 20
"""Growth since the last trim after which much memory may be freed soon."""
LITTLE_BYTES: Final = 16 << 20
SMALL_BYTES: Final = 128 << 20
"""Memory below which a process has nothing to trim."""
ARRIVED_MOST: Final = 1024
"""Connections reported per check, at most; the next check reports the others."""
SILENT_SECONDS: Final = 30.0
"""Seconds from a connection's accept to its first message, at most."""
SILENT_MOST: Final = 64
CROWDED_SECONDS: Final = 2.0
"""Seconds for connections of an address with more than SILENT_MOST silent ones.

Enough for hundreds of clients that come at once, each of which is heard some tens of milliseconds after its accept.
"""
SILENT_LOOK_SECONDS: Final = 0.25
"""Pause between two scans of silent connections.

A scan of 10,000 of an address takes about a millisecond, and with each accept that would be half of the processor.
"""
AGAIN_SECONDS: Final = 0.25
"""Pause after an exception."""
MONITOR: Final = "inproc://connections"
EVENTS: Final = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED

_event = struct.Struct("=HI")


class SilentConnections:
    """Accepted connections on which nothing was heard yet, in their order. Pure.

    A connection is due ``seconds`` after its accept; if an address has more than SILENT_MOST, the oldest beyond these
    are due after CROWDED_SECONDS. The oldest give way, not the newest: a client speaks within some round trips of its
    accept, so it gets in however many others stay silent.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._accepted_at: OrderedDict[Connection, float] = OrderedDict()
        self._address_of: dict[Connection, str] = {}  # at its accept; its first message may have another one
        self._by_address: dict[str, OrderedDict[Connection, float]] = {}
        self._crowded: dict[str, None] = {}

    def add(self, connection: Connection, now: float) -> None:
        """Add a connection that was accepted now."""
        if connection.is_silent:
            address = self._address_of[connection] = connection.address
            self._accepted_at[connection] = now
            others = self._by_address.setdefault(address, OrderedDict())
            others[connection] = now
            if len(others) > SILENT_MOST:
                self._crowded[address] = None

    def forget(self, connection: Connection) -> None:
        """Remove a connection that was closed or heard."""
        if self._accepted_at.pop(connection, None) is not None:
            address = self._address_of.pop(connection)
            others = self._by_address[address]
            del others[connection]
            if len(others) <= SILENT_MOST:
                self._crowded.pop(address, None)
            if not others:
                del self._by_address[address]

    def next_due_at(self) -> float:
        """Return the time at which the next connection is due; inf if there is none."""
        at = [self._oldest(self._by_address[address]) + CROWDED_SECONDS for address in list(self._crowded)]
        return min([self._oldest(self._accepted_at) + self._seconds, *at])

    def take_due(self, until: float) -> list[Connection]:
        """Remove and return the connections that are due by a time."""
        due: list[Connection] = []
        while self._oldest(self._accepted_at) + self._seconds <= until:
            due.append(self._take(self._accepted_at))
        for address in list(self._crowded):
            others = self._by_address[address]
            for heard in [each for each in others if not each.is_silent]:
                self.forget(heard)
            while len(others) > SILENT_MOST and self._oldest(others) + CROWDED_SECONDS <= until:
                due.append(self._take(others))
        return due

    def _oldest(self, among: OrderedDict[Connection, float]) -> float:
        """Return the time of the oldest silent connection's accept; inf if none is silent."""
        while among:
            connection, accepted_at = next(iter(among.items()))
            if connection.is_silent:
                return accepted_at
            self.forget(connection)
        return inf

    def _take(self, among: OrderedDict[Connection, float]) -> Connection:
        connection = next(iter(among))
        self.forget(connection)
        return connection


class ConnectionGuard:
    """Guard of one socket until ``close``.

    Args:
        most_bytes: bound of the process's memory.
        most_connections: number above which the oldest connection that never sent anything is closed.
        silent_seconds: seconds after which a connection is closed on which nothing was heard.
        keys: keys that may connect; None if every peer may.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        socket: zmq.Socket[bytes],
        connections: Connections,
        most_bytes: int,
        most_connections: int,
        silent_seconds: float = SILENT_SECONDS,
        keys: KeyRing | None = None,
    ) -> None:
        self._socket = socket
        self._connections = connections
        self._most_bytes = most_bytes
        self._most_connections = most_connections
        self._memory = ProcessMemory()
        self._trimmed_bytes = self._memory.resident()
        self._trim_pause = TRIM_SECONDS
        self._trim_at = 0.0
        self._may_trim = False
        self._settled_at = 0.0
        self._silent_looked_at = -inf
        self._silent = SilentConnections(silent_seconds)
        self._refusals, self._silences, self._failures = SparseLog(), SparseLog(), SparseLog()
        self._heard: deque[tuple[bool, int]] = deque()
        self._arrived_fds: list[int] = []
        self._arrivals = select.epoll()
        self._stop = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        socket.monitor(MONITOR, EVENTS)
        self._monitor: zmq.Socket[bytes] = context.socket(zmq.PAIR)
        # libzmq's own thread would wait for room in this queue.
        self._monitor.setsockopt(zmq.RCVHWM, 0)
        self._monitor.connect(MONITOR)
        self._changes = select.poll()
        self._all = select.poll()
        for poller in (self._changes, self._all):
            poller.register(self._stop, select.POLLIN)
            poller.register(self._monitor.fileno(), select.POLLIN)
        self._all.register(self._arrivals.fileno(), select.POLLIN)
        self._authenticator = None if keys is None else Authenticator(context, connections, keys, self._read_monitor)
        if self._authenticator is not None:
            for fd in self._authenticator.filenos():
                self._changes.register(fd, select.POLLIN)
                self._all.register(fd, select.POLLIN)
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)
        self._thread.start()

    def read_keys(self) -> None:
        """Have the guard read the access file again."""
        if self._authenticator is not None:
            self._authenticator.wake()

    def close(self) -> None:
        """End the thread; call it before the socket is closed."""
        self._socket.disable_monitor()
        os.eventfd_write(self._stop, 1)
        self._thread.join()
        self._monitor.close(linger=0)
        if self._authenticator is not None:
            self._authenticator.close()
        self._arrivals.close()
        os.close(self._stop)
        self._memory.close()

    def _run(self) -> None:
        is_stopped = False
        while not is_stopped:
            try:
                self._guard()
                return
            except Exception as error:
                if count := self._failures.count(ticks()):
                    log.error("guard-failed count=%d error=%s", count, quoted(repr(error)), exc_info=error)
            is_stopped = self._stopped(self._changes.poll(1000 * AGAIN_SECONDS))

    def _guard(self) -> None:
        """Guard until ``close``."""
        # A socket only wakes a reader that has found it empty.
        self._read_news()
        while not self._stopped(self._sleep()):
            self._read_news()
            if self._read_arrivals():
                # The first arrivals are rarely all.
                if self._stopped(self._changes.poll(1000 * self._pause())):
                    return
                self._read_news()
            self._check_memory()
            self._watch_again()

    def _sleep(self) -> list[tuple[int, int]]:
        """Do all that is due, and wait for an event, or until something is due."""
        if self._may_trim and self._trim_at <= ticks():
            self._trim()
        if self._silent_due_at() <= ticks():
            self._close_silent()
        wake_at = min(self._trim_at if self._may_trim else inf, self._silent_due_at())
        if self._authenticator is not None:
            wake_at = min(wake_at, ticks() + self._authenticator.seconds_to_expiry())
        return self._all.poll(None if wake_at == inf else max(0.0, 1000 * (wake_at - ticks())))

    def _trim(self) -> None:
        before = self._memory.resident()
        self._memory.trim()
        self._trimmed_bytes = self._memory.resident()
        brought = before - self._trimmed_bytes
        self._trim_pause = TRIM_SECONDS if brought > LITTLE_BYTES else min(2 * self._trim_pause, TRIM_SECONDS_MOST)
        self._trim_at = ticks() + self._trim_pause
        self._may_trim = False

    def _pause(self) -> float:
        return SOON_SECONDS if self._memory.resident() > self._most_bytes // 2 else LOOK_SECONDS

    def _stopped(self, ready: list[tuple[int, int]]) -> bool:
        return any(fd == self._stop for fd, _ in ready)

    # ------------------------------------------------------------------------------------------------ connections

    def _read_news(self) -> None:
        self._read_monitor()
        if self._authenticator is not None:
            self._authenticator.serve()

    def _read_monitor(self) -> None:
        """Read opened and closed connections."""
        with suppress(zmq.Again):
            while True:
                kind, fd = _event.unpack(self._monitor.recv_multipart(zmq.NOBLOCK)[0])
                self._heard.append((kind == zmq.EVENT_ACCEPTED, fd))
        for is_open, connection in self._connections.follow(self._heard):
            if is_open:
                self._on_accept(connection)
            else:
                self._silent.forget(connection)
                self._may_trim |= self._trimmed_bytes > SMALL_BYTES

    def _on_accept(self, connection: Connection) -> None:
        if len(self._connections) > self._most_connections:
            self._connections.refuse(connection)
            if count := self._refusals.count(ticks()):
                log.warning("connections-refused count=%d open=%d", count, len(self._connections))
        elif self._authenticator is not None and connection.uid is None and self._authenticator.is_hasty(connection):
            self._connections.refuse_hasty(connection)
        else:
            self._watch(connection.fd)
            self._silent.add(connection, ticks())

    def _silent_due_at(self) -> float:
        """Return the time at which to scan silent connections; inf if there are none."""
        return max(self._silent_looked_at + SILENT_LOOK_SECONDS, self._silent.next_due_at())

    def _close_silent(self) -> None:
        self._silent_looked_at = now = ticks()
        for connection in self._silent.take_due(self._connections.heard_until(now)):
            if self._connections.close_silent(connection) and (count := self._silences.count(now)):
                log.info("connections-silent count=%d address=%s", count, connection.address)

    def _watch(self, fd: int) -> None:
        """Ask for a notification of the next byte that arrives."""
        with suppress(OSError):  # the connection has ended
            try:
                self._arrivals.register(fd, select.EPOLLIN | select.EPOLLONESHOT)
            except FileExistsError:
                self._arrivals.modify(fd, select.EPOLLIN | select.EPOLLONESHOT)

    def _watch_again(self) -> None:
        fired, self._arrived_fds = self._arrived_fds, []
        for fd in fired:
            with suppress(OSError):
                self._arrivals.modify(fd, select.EPOLLIN | select.EPOLLONESHOT)

    def _read_arrivals(self) -> bool:
        self._arrived_fds += [fd for fd, _ in self._arrivals.poll(0, ARRIVED_MOST)]
        return bool(self._arrived_fds)

    # ------------------------------------------------------------------------------------------------ memory

    def _check_memory(self) -> None:
        taken = self._memory.resident()
        began = ticks()
        self._plan_trim(taken)
        if taken > CUT_AT * self._most_bytes and began >= self._settled_at:
            if self._cut_largest(taken):
                self._trim_soon()
            self._settled_at = ticks() + max(SETTLE_SECONDS, 10 * (ticks() - began))

    def _plan_trim(self, taken: int) -> None:
        self._trimmed_bytes = min(self._trimmed_bytes, taken)
        if taken > self._trimmed_bytes + TRIM_BYTES and self._trim_pause > TRIM_SECONDS:
            self._trim_soon()
        self._may_trim |= taken > max(SMALL_BYTES, self._trimmed_bytes + LITTLE_BYTES)

    def _trim_soon(self) -> None:
        self._trim_pause, self._trim_at = TRIM_SECONDS, min(self._trim_at, ticks() + SETTLE_SECONDS)
        self._may_trim = True

    def _cut_largest(self, taken: int) -> bool:
        """Cut connections; return False if none holds enough."""
        by_waiting = sorted(((each.buffered_bytes, each) for each in self._connections.all()), key=_size, reverse=True)
        is_cut = False
        for waiting, connection in by_waiting:
            if taken <= CUT_TO * self._most_bytes or waiting < LEAST_BYTES:
                break
            self._connections.cut_holder(connection, waiting)
            taken -= waiting
            is_cut = True
        return is_cut


def _size(counted: tuple[int, Connection]) -> int:
    return counted[0]
