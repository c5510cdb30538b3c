"""Sleeping: never too short, never past the next thing to do."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing

import pytest
import zmq

from taskqueue.server.clock import ticks
from taskqueue.server.loop import Poller
from taskqueue.server.meters import Meters
from taskqueue.server.signals import RELOAD, Signals
from taskqueue.server.syncer import Syncer

FOREVER = 1e12
SOON = 0.01
ONE_AND_A_BIT = 0.0019
"""Seconds that would be a millisecond if they were cut off instead of rounded up."""


class Bed:
    """Poller with a socket, signals and a syncer of its own.

    Attributes:
        friend: socket whose messages reach the poller's.
    """

    def __init__(self, signals: Signals) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
        self.socket: zmq.Socket[bytes] = context.socket(zmq.PAIR)
        self.friend: zmq.Socket[bytes] = context.socket(zmq.PAIR)
        port = self.socket.bind_to_random_port("tcp://127.0.0.1")
        self.friend.connect(f"tcp://127.0.0.1:{port}")
        self._wait_until_connected()
        self.meters = Meters()
        self.syncer = Syncer(lambda: None, "commit", self.meters)
        self.poller = Poller(self.meters, self.socket, signals, self.syncer)

    def _wait_until_connected(self) -> None:
        """Wait for the connection, which ends a sleep up to a millisecond early while it is being made."""
        self.friend.send(b"")
        self.socket.recv()

    def close(self) -> None:
        self.syncer.close()
        self.socket.close(0)
        self.friend.close(0)


@pytest.fixture
def signals() -> Iterator[Signals]:
    with Signals() as signals:
        yield signals


@pytest.fixture
def bed(signals: Signals) -> Iterator[Bed]:
    with closing(Bed(signals)) as bed:
        yield bed


def test_it_never_wakes_up_before_the_time(bed: Bed) -> None:
    slept = []
    for _ in range(20):
        began = ticks()
        bed.poller.sleep(ONE_AND_A_BIT)
        slept.append(ticks() - began)

    assert min(slept) >= ONE_AND_A_BIT


def test_it_may_be_told_to_sleep_for_ever(bed: Bed, signals: Signals) -> None:
    os.kill(os.getpid(), signal.SIGHUP)

    bed.poller.sleep(FOREVER)

    assert signals.take() == [RELOAD]


def test_a_message_wakes_it_up(bed: Bed) -> None:
    bed.friend.send(b"hello")

    bed.poller.sleep(FOREVER)

    assert bed.socket.recv(zmq.NOBLOCK) == b"hello"


def test_while_it_is_deaf_no_message_wakes_it_up(bed: Bed) -> None:
    bed.friend.send(b"hello")
    bed.socket.poll()

    began = ticks()
    bed.poller.sleep(SOON, ignore_socket=True)

    assert ticks() - began >= SOON


def test_what_was_synced_before_it_falls_asleep_keeps_it_awake(bed: Bed) -> None:
    bed.syncer.wrote()
    bed.syncer.sync_soon()
    bed.syncer._end()  # it is synced, and the loop was not woken

    bed.poller.sleep(SOON)

    assert bed.syncer.has_progress
    assert bed.meters.wakeups == 0
