"""Made-up tasks by their number, pushed and done by one process that speaks the protocol and does nothing else.

    with Traffic(daemon.url) as traffic:
        traffic.push(range(1000), 256)                 push them; returns counts of their outcomes
        traffic.lifecycles(range(1000, 2000), 256)     push them, and run as many meanwhile; returns seconds
        traffic.fetch(1000, 256)                       run 1,000 waiting tasks; returns seconds

A task's id is the MD5 of its number: random, as those of a crawler are, and found again without a list of them. Bodies
are incompressible, even many of them in one block of a file. Producer and fetcher are two sessions; several batches are
in flight, so that the daemon never waits.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from hashlib import md5
from types import TracebackType
from typing import Final, Self

import msgspec
import zmq

from benchmarks.daemon import Peer
from taskqueue.protocol.fetchers import Hello, Select
from taskqueue.protocol.tasks import Done, DoneReply, NewTasks, NewTasksReply
from taskqueue.protocol.values import PLAIN, NewTask, Schedule, TaskReport

PROJECT: Final = "bench"
WINDOW: Final = 8
"""Unanswered batches of the producer, and batches that the fetcher holds."""
BODY_BYTES: Final = 300
BODIES: Final = 4096
"""Different bodies; equal ones lie further apart than any compression looks."""
EVERYTHING: Final = 2**62
"""Number of the last ``select`` seen; with this one, tasks in flight needn't come again."""

Numbers = Sequence[int]
Scheduled = Callable[[int], Schedule]
"""Function that returns the schedule of the task of a number."""


def taskid_of(number: int) -> str:
    """Return the taskid of a number, as random as that of a real url."""
    return md5(b"%d" % number, usedforsecurity=False).hexdigest()


def now(number: int) -> Schedule:
    """Return the schedule of a task that is due at once."""
    return PLAIN


def body_of(size: int) -> msgspec.Raw:
    """Make random bytes that take ``size`` bytes as MessagePack, from 5 on."""
    return msgspec.Raw(msgspec.msgpack.encode(os.urandom(max(2, size - (2 if size < 258 else 3)))))


class Traffic:
    """Producer and fetcher of one daemon.

    Args:
        body: bytes of each task's body.
    """

    def __init__(self, url: str, body: int = BODY_BYTES) -> None:
        self._url = url
        self._bodies = [body_of(body) for _ in range(BODIES)]
        self._producer = Producer(url)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._producer.close()

    def push(
        self, numbers: Numbers, batch: int, schedule: Scheduled = now, project: str = PROJECT, window: int = WINDOW
    ) -> Counter[str]:
        """Push these tasks; return counts of their outcomes when all are acknowledged."""
        producer = self._producer
        producer.begin(project, self.batches(numbers, batch, schedule), window)
        while producer.is_busy:
            producer.hear()
        return producer.outcomes

    def lifecycles(self, numbers: Numbers, batch: int, project: str = PROJECT) -> float:
        """Push these new tasks, and run as many meanwhile, in any order; return the seconds until all is acknowledged.

        Raises:
            SystemExit: a task was not new, or a ``done`` did not count.
        """
        producer = self._producer
        with Fetcher(self._url, len(numbers), batch, project) as fetcher:
            began_at = time.perf_counter()
            producer.begin(project, self.batches(numbers, batch, now), WINDOW)
            hear_both(producer, fetcher)
            seconds = time.perf_counter() - began_at
        expect(producer.outcomes, "new", len(numbers))
        return seconds

    def fetch(self, count: int, batch: int, project: str = PROJECT) -> float:
        """Run ``count`` waiting tasks; return the seconds until all is acknowledged."""
        began_at = time.perf_counter()
        with Fetcher(self._url, count, batch, project) as fetcher:
            while fetcher.is_busy:
                fetcher.hear()
        return time.perf_counter() - began_at

    def batches(self, numbers: Numbers, batch: int, schedule: Scheduled = now) -> Iterator[list[NewTask | None]]:
        """Yield batches of tasks, made on demand."""
        for start_at in range(0, len(numbers), batch):
            yield [self._task(number, schedule(number)) for number in numbers[start_at : start_at + batch]]

    def _task(self, number: int, schedule: Schedule) -> NewTask:
        taskid = taskid_of(number)
        return NewTask(taskid, f"http://example.com/{taskid}", schedule, self._bodies[number % BODIES])


class Producer:
    """Producer that has a window of batches in flight.

    Attributes:
        outcomes: counts of outcomes since ``begin``.
    """

    def __init__(self, url: str) -> None:
        self.peer = Peer(url, f"producer-{os.urandom(8).hex()}")
        self.outcomes: Counter[str] = Counter()
        self._project = ""
        self._batches: Iterator[list[NewTask | None]] = iter(())
        self._unanswered = 0

    @property
    def is_busy(self) -> bool:
        """Whether a batch is unanswered."""
        return self._unanswered > 0

    def begin(self, project: str, batches: Iterator[list[NewTask | None]], window: int) -> None:
        """Send the first batches."""
        self.outcomes = Counter()
        self._project = project
        self._batches = batches
        for _ in range(window):
            self._send_next()

    def hear(self) -> None:
        """Take an answer, and send the next batch."""
        reply = self.peer.receive()
        assert isinstance(reply, NewTasksReply), reply
        self.outcomes.update(reply.outcomes)
        self._unanswered -= 1
        self._send_next()

    def close(self) -> None:
        """Close the connection without waiting for answers."""
        self.peer.socket.close()

    def _send_next(self) -> None:
        tasks = next(self._batches, None)
        if tasks is not None:
            peer = self.peer
            peer.send(NewTasks(session=peer.session, n=peer.number(), project=self._project, tasks=tasks))
            self._unanswered += 1


class Fetcher:
    """Fetcher that runs ``count`` tasks and releases the rest.

    Args:
        project: project of its tasks; None: any.

    Attributes:
        peer: session of the fetcher.
    """

    def __init__(self, url: str, count: int, batch: int, project: str | None) -> None:
        self.peer = Peer(url, f"fetcher-{os.urandom(8).hex()}")
        self._projects = None if project is None else [project]
        self._batch = batch
        self._unreported = self._unanswered = count

    def __enter__(self) -> Self:
        self._hello(max(16, WINDOW * self._batch), seen=0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            number = self._hello(0, EVERYTHING)
            while getattr(self.peer.receive(), "n", 0) != number:
                pass
        self.peer.socket.close()

    @property
    def is_busy(self) -> bool:
        """Whether some of its work is not done and acknowledged."""
        return self._unanswered > 0

    def hear(self) -> None:
        """Take a message; tasks are done at once, in batches.

        Raises:
            SystemExit: a ``done`` did not count.
        """
        message = self.peer.receive()
        if isinstance(message, Select):
            self._report([TaskReport(task.project, task.taskid, task.token) for task in message.tasks])
        elif isinstance(message, DoneReply):
            expect(Counter(message.outcomes), "done", len(message.outcomes))
            self._unanswered -= len(message.outcomes)

    def _report(self, tasks: list[TaskReport | None]) -> None:
        tasks = tasks[: self._unreported]
        self._unreported -= len(tasks)
        for start_at in range(0, len(tasks), self._batch):
            part = tasks[start_at : start_at + self._batch]
            self.peer.send(Done(session=self.peer.session, n=self.peer.number(), tasks=part))

    def _hello(self, capacity: int, seen: int) -> int:
        peer = self.peer
        number = peer.number()
        peer.send(Hello(session=peer.session, n=number, capacity=capacity, projects=self._projects, seen=seen))
        return number


def hear_both(producer: Producer, fetcher: Fetcher) -> None:
    """Let producer and fetcher work until both have finished."""
    poller = zmq.Poller()
    both = {each.peer.socket: each for each in (producer, fetcher)}
    for socket in both:
        poller.register(socket, zmq.POLLIN)
    while producer.is_busy or fetcher.is_busy:
        for socket, _ in poller.poll():
            both[socket].hear()


def expect(outcomes: Counter[str], outcome: str, count: int) -> None:
    """Check that all of them are ``outcome``.

    Raises:
        SystemExit: they are not.
    """
    if outcomes != Counter({outcome: count}):
        raise SystemExit(f"{count:,} tasks were answered {dict(outcomes)} instead of {outcome}")
