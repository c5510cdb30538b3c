"""Keeps the process's memory and open files within bounds: a thread that cuts the connections that use the most.

    monitor ──opened, closed──►┌───────┐   memory above CUT_AT of the bound: cut the connections that hold most
    arrivals ───first byte────►│ check │   more connections than files: close a silent one
                               └───────┘   memory has been freed: trim the heap

The loop can't do it: libzmq delivers a message when all its parts are there, so it never sees the memory of an endless
one, and a turn may take longer than a peer needs to send gigabytes.

Rules:
1. It sleeps until a connection opens or closes, or data arrives; a connection on which data has arrived is not watched
   again before the next check. An idle daemon does no checks.
2. A check costs one read of /proc. Only above CUT_AT of the bound is the kernel asked about each connection, and not
   again within SETTLE_SECONDS, because freeing takes a moment, or ten times what the asking took.
3. A connection that holds less than LEAST_BYTES is never cut: it can't be what fills the memory.
"""

from __future__ import annotations

import logging
import os
import select
import struct
import threading
from contextlib import suppress
from typing import Final

import zmq

from taskqueue.server.clock import ticks
from taskqueue.server.limits.process_memory import ProcessMemory
from taskqueue.server.network.connections import Connection, Connections

log = logging.getLogger("taskqueue")

CUT_AT: Final = 0.8
CUT_TO: Final = 0.6
"""Fraction of the bound down to which connections are cut."""
LEAST_BYTES: Final = 16 << 10
"""A hundred connections full of empty parts, of which 2 bytes take 64 in memory, hold 50 MiB with that."""
LOOK_SECONDS: Final = 0.05
"""Between two checks while data arrives."""
SOON_SECONDS: Final = 0.01
"""Between two checks when more than half of the bound is used: a loopback interface brings 20 MB meanwhile."""
SETTLE_SECONDS: Final = 0.03
TRIM_SECONDS: Final = 1.0
TRIM_SECONDS_MOST: Final = 60.0
"""Between trims of the heap; the time doubles from TRIM_SECONDS while trims free less than LITTLE_BYTES."""
TRIM_BYTES: Final = 64 << 20
"""Growth since the last trim after which much may be freed soon."""
LITTLE_BYTES: Final = 16 << 20
SMALL_BYTES: Final = 128 << 20
"""A process with less memory has nothing to trim."""
ARRIVED_MOST: Final = 1024
"""Connections reported per check; the others in the next one."""
TOLD_SECONDS: Final = 10.0
"""Between two log lines about refused connections."""
MONITOR: Final = "inproc://connections"
EVENTS: Final = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED

_event = struct.Struct("=HI")


class ConnectionGuard:
    """Guards one socket until ``close``.

    Args:
        most_bytes: bound of the process's memory.
        most_connections: beyond so many, the oldest that never sent anything is closed.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        socket: zmq.Socket[bytes],
        connections: Connections,
        most_bytes: int,
        most_connections: int,
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
        self._settled_at = self._logged_at = 0.0
        self._refused = 0
        self._arrived_fds: list[int] = []
        self._arrivals = select.epoll()
        self._stop = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        socket.monitor(MONITOR, EVENTS)
        self._monitor: zmq.Socket[bytes] = context.socket(zmq.PAIR)
        # Whoever waits for room in here is libzmq's own thread.
        self._monitor.setsockopt(zmq.RCVHWM, 0)
        self._monitor.connect(MONITOR)
        self._changes = select.poll()
        self._all = select.poll()
        for poller in (self._changes, self._all):
            poller.register(self._stop, select.POLLIN)
            poller.register(self._monitor.fileno(), select.POLLIN)
        self._all.register(self._arrivals.fileno(), select.POLLIN)
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; call it before the socket is closed."""
        self._socket.disable_monitor()
        os.eventfd_write(self._stop, 1)
        self._thread.join()
        self._monitor.close(linger=0)
        self._arrivals.close()
        os.close(self._stop)
        self._memory.close()

    def _run(self) -> None:
        # A socket wakes up only who has found it empty.
        self._read_monitor()
        while not self._stopped(self._sleep()):
            self._read_monitor()
            if self._read_arrivals():
                # What comes first is seldom all.
                if self._stopped(self._changes.poll(1000 * self._pause())):
                    return
                self._read_monitor()
            self._check_memory()
            self._watch_again()

    def _sleep(self) -> list[tuple[int, int]]:
        """Wait for an event. Trims the heap when that is due."""
        if self._may_trim:
            if (left := self._trim_at - ticks()) > 0 and (happened := self._all.poll(1000 * left)):
                return happened
            self._trim()
        return self._all.poll()

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

    def _read_monitor(self) -> None:
        """Read which connections opened and closed."""
        while True:
            try:
                event, _ = self._monitor.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            kind, fd = _event.unpack(event)
            if kind == zmq.EVENT_ACCEPTED:
                self._on_accept(fd)
            else:
                self._connections.closed(fd)
                self._may_trim |= self._trimmed_bytes > SMALL_BYTES
        if self._refused and ticks() >= self._logged_at:
            log.warning("connections-refused count=%d open=%d", self._refused, len(self._connections))
            self._refused, self._logged_at = 0, ticks() + TOLD_SECONDS

    def _on_accept(self, fd: int) -> None:
        connection = self._connections.opened(fd)
        if len(self._connections) > self._most_connections:
            self._refused += 1
            self._connections.refuse(connection)
        else:
            self._watch(fd)

    def _watch(self, fd: int) -> None:
        """Arm the notification for the next byte that arrives."""
        with suppress(OSError):  # it has ended
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
        """Plan a trim: the heap may have grown since the last one."""
        self._trimmed_bytes = min(self._trimmed_bytes, taken)
        if taken > self._trimmed_bytes + TRIM_BYTES and self._trim_pause > TRIM_SECONDS:
            self._trim_soon()
        self._may_trim |= taken > max(SMALL_BYTES, self._trimmed_bytes + LITTLE_BYTES)

    def _trim_soon(self) -> None:
        self._trim_pause, self._trim_at = TRIM_SECONDS, min(self._trim_at, ticks() + SETTLE_SECONDS)
        self._may_trim = True

    def _cut_largest(self, taken: int) -> bool:
        """Cut connections; False: none holds enough."""
        by_waiting = sorted(((each.buffered_bytes, each) for each in self._connections.all()), key=_size, reverse=True)
        is_cut = False
        for waiting, connection in by_waiting:
            if taken <= CUT_TO * self._most_bytes or waiting < LEAST_BYTES:
                break
            self._connections.cut(connection, waiting, "memory")
            taken -= waiting
            is_cut = True
        return is_cut


def _size(counted: tuple[int, Connection]) -> int:
    return counted[0]
