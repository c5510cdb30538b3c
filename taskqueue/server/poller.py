"""Sleeps until a message, a signal, progress of the syncer or a notification of the database.

The loop blocks here and nowhere else.
"""

from __future__ import annotations

from math import ceil
from typing import Final

import zmq

from taskqueue.server.meters import Meters
from taskqueue.server.signals import Signals
from taskqueue.server.syncer import Syncer
from taskqueue.server.table_intake import TableIntake

MAX_SLEEP_SECONDS: Final = 86_400.0
"""The milliseconds must fit in a C int; one wake-up a day costs nothing."""


class Poller:
    """Polls the socket, the signals and, if they are there, a syncer and an intake."""

    def __init__(
        self,
        meters: Meters,
        socket: zmq.Socket[bytes],
        signals: Signals,
        syncer: Syncer | None = None,
        intake: TableIntake | None = None,
    ) -> None:
        self._meters = meters
        self._signals = signals
        self._syncer = syncer
        self._intake = intake
        self._without_socket = zmq.Poller()
        self._all = zmq.Poller()
        for poller in (self._without_socket, self._all):
            poller.register(signals, zmq.POLLIN)
            for waker in (syncer, intake):
                if waker is not None:
                    poller.register(waker, zmq.POLLIN)
        self._all.register(socket, zmq.POLLIN)

    def sleep(self, seconds: float, ignore_socket: bool = False) -> None:
        """Return when there is something to do, after ``seconds``, or after a day.

        Rounded up to a millisecond, so that the loop never wakes before something is due and spins. An exact sleep
        would make a single timer less late, but ten timers within a millisecond would be ten turns. A connection that
        opens or closes meanwhile may end the sleep up to a millisecond early, because ZeroMQ then counts whole ones.

        Args:
            ignore_socket: incoming messages do not end the sleep.
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
        for waker in (self._signals, self._syncer, self._intake):
            if waker is not None and waker.fileno() in ready:
                waker.clear_wakeup()
