"""Timers in three systems: set them, and see when each comes out (see ``benchmarks.lateness``).

A timer is a number; ``due`` gives, by number, the wall-clock second before which it must not come out. Every fetcher
does as little as possible: it records when a message came and its contents.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from math import ceil
from typing import Final, NamedTuple, Protocol

from benchmarks.daemon import Peer
from benchmarks.peers import beanstalkd, redis
from benchmarks.peers.beanstalkd import ID_BYTES
from benchmarks.peers.service import CHUNK_BYTES, connect
from benchmarks.traffic import PROJECT, Traffic, expect, taskid_of
from taskqueue.protocol.codec import decode_outgoing
from taskqueue.protocol.fetchers import Hello, Select
from taskqueue.protocol.fields import MAX_CAPACITY
from taskqueue.protocol.messages import AnyOutgoing
from taskqueue.protocol.tasks import Done, DoneReply
from taskqueue.protocol.values import Schedule, TaskReport

BATCH: Final = 1000
BODY_BYTES: Final = 100
CHUNK: Final = 16
"""Jobs put into beanstalkd at once: few, so that the start of each one's delay is known."""
WINDOW: Final = 256
"""Jobs reserved ahead."""
RESERVE: Final = b"reserve\r\n"
POLL_SECONDS: Final = 0.001

DUE: Final = b"""
local due = redis.call('ZRANGEBYSCORE', 'timers', '-inf', ARGV[1], 'LIMIT', 0, 1000)
if #due > 0 then redis.call('ZREM', 'timers', unpack(due)) end
return due
"""

Wanted = Mapping[int, float]
"""Wall-clock seconds by number."""


class Out(NamedTuple):
    """Timer that came out: its task's id, and the wall-clock second in which the fetcher had it."""

    taskid: str
    at: float


class Timers(Protocol):
    """System that keeps timers."""

    def put(self, due: Wanted) -> None:
        """Set timers; return once all are acknowledged."""

    def fetch(self, count: int) -> list[Out]:
        """Wait for ``count`` timers."""


class InTaskqueue:
    """Delayed tasks of one project; the fetcher holds all that it gets."""

    def __init__(self, url: str) -> None:
        self._url = url

    def put(self, due: Wanted) -> None:
        with Traffic(self._url, BODY_BYTES) as traffic:
            outcomes = traffic.push(list(due), BATCH, lambda number: Schedule(exetime=due[number]))
        expect(outcomes, "new", len(due))

    def fetch(self, count: int) -> list[Out]:
        out: list[Out] = []
        with Peer(self._url, f"fetcher-{os.urandom(8).hex()}") as peer:
            peer.send(Hello(session=peer.session, n=peer.number(), capacity=MAX_CAPACITY, projects=[PROJECT]))
            while len(out) < count:
                payload = peer.socket.recv()
                at = time.time()
                message = decode_outgoing(payload)
                self.note(peer, message)
                if isinstance(message, Select):
                    out += [Out(task.taskid, at) for task in message.tasks]
        return out

    def note(self, peer: Peer, message: AnyOutgoing) -> None:
        """Process a message of the fetcher."""


class InTaskqueueDone(InTaskqueue):
    """Delayed tasks that the fetcher reports as soon as it has the answer to its last report."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._reported: list[TaskReport | None] = []
        self._unanswered = False

    def note(self, peer: Peer, message: AnyOutgoing) -> None:
        if isinstance(message, Select):
            self._reported += [TaskReport(task.project, task.taskid, task.token) for task in message.tasks]
        elif isinstance(message, DoneReply):
            self._unanswered = False
        if self._reported and not self._unanswered:
            peer.send(Done(session=peer.session, n=peer.number(), tasks=self._reported))
            self._reported, self._unanswered = [], True


class InBeanstalkd:
    """Delayed jobs. A delay is whole seconds, rounded up, or the job would come out too early.

    Attributes:
        rounded: rounded due times, by number.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self.rounded: dict[int, float] = {}

    def put(self, due: Wanted) -> None:
        numbers = list(due)
        with connect(self._address) as sock:
            for start_at in range(0, len(numbers), CHUNK):
                some = numbers[start_at : start_at + CHUNK]
                now = time.time()
                sock.sendall(b"".join(self._put(number, due[number], now) for number in some))
                answered = 0
                while answered < len(some):
                    answered += sock.recv(CHUNK_BYTES).count(b"INSERTED")

    def fetch(self, count: int) -> list[Out]:
        """Wait for ``count`` timers; WINDOW jobs are reserved ahead, none is deleted."""
        out: list[Out] = []
        reader = beanstalkd.Reader()
        with connect(self._address) as sock:
            sock.sendall(RESERVE * WINDOW)
            while len(out) < count:
                chunk = sock.recv(CHUNK_BYTES)
                at = time.time()
                reader.feed(chunk)
                came = [Out(taskid.decode(), at) for _, taskid in reader.read()]
                sock.sendall(RESERVE * len(came))
                out += came
        return out

    def _put(self, number: int, due: float, now: float) -> bytes:
        delay = max(0, ceil(due - now))
        self.rounded[number] = now + delay
        return b"put 0 %d 600 %d\r\n%b\r\n" % (delay, ID_BYTES, taskid_of(number).encode())


class InRedis:
    """Sorted set by time, which the fetcher asks each millisecond for what is due."""

    def __init__(self, address: str) -> None:
        self._address = address

    def put(self, due: Wanted) -> None:
        numbers = list(due)
        with connect(self._address) as sock:
            connection = redis.Connection(sock)
            for start_at in range(0, len(numbers), BATCH):
                some = numbers[start_at : start_at + BATCH]
                scored = [part for number in some for part in (b"%.6f" % due[number], taskid_of(number).encode())]
                connection.send(b"ZADD", b"timers", *scored)
                connection.receive()

    def fetch(self, count: int) -> list[Out]:
        out: list[Out] = []
        with connect(self._address) as sock:
            connection = redis.Connection(sock)
            script = connection.load(DUE)
            while len(out) < count:
                connection.send(b"EVALSHA", script, b"0", b"%.6f" % time.time())
                came = connection.receive()
                at = time.time()
                out += [Out(taskid.decode(), at) for taskid in came]
                time.sleep(POLL_SECONDS)
        return out
