"""Sleep until a message, a signal or the syncer's progress; the only place where the loop waits."""

from __future__ import annotations

from math import ceil
from typing import Final

import zmq

from taskqueue.server.meters import Meters
from taskqueue.server.signals import Signals
from taskqueue.server.syncer import Syncer

MAX_SLEEP_SECONDS: Final = 86_400.0
"""Milliseconds must fit in the operating system's int; one wake-up a day costs nothing."""


class Poller:
    """Watches the socket, the signals and, if there is one, a syncer."""

    def __init__(
        self, meters: Meters, socket: zmq.Socket[bytes], signals: Signals, syncer: Syncer | None = None
    ) -> None:
        self._meters = meters
        self._signals = signals
        self._syncer = syncer
        self._without_socket = zmq.Poller()
        self._all = zmq.Poller()
        for poller in (self._without_socket, self._all):
            poller.register(signals, zmq.POLLIN)
            if syncer is not None:
                poller.register(syncer, zmq.POLLIN)
        self._all.register(socket, zmq.POLLIN)

    def sleep(self, seconds: float, ignore_socket: bool = False) -> None:
        """Return when there is something to do, or after so many seconds, or after a day.

        Rounded up to a millisecond, so that nothing wakes up before it is due, and then again and again. Sleeping
        exactly would make a single timer less late, but of ten timers a millisecond ten turns. A connection that comes
        or goes meanwhile may end it up to a millisecond too early, for ZeroMQ then counts whole ones.
        Deaf: what comes in does not wake it up.
        """
        milliseconds = ceil(1000 * min(seconds, MAX_SLEEP_SECONDS))
        if self._syncer is None:
            self._poll(ignore_socket, milliseconds)
            return
        self._syncer.sleeping = True
        if not self._syncer.has_progress:
            self._poll(ignore_socket, milliseconds)
        self._syncer.sleeping = False

    def _poll(self, ignore_socket: bool, milliseconds: int) -> None:
        ready = dict((self._without_socket if ignore_socket else self._all).poll(milliseconds))
        self._meters.wakeups += 1
        for waker in (self._signals, self._syncer):
            if waker is not None and waker.fileno() in ready:
                waker.clear_wakeup()
