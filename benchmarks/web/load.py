"""Daemon of many projects at full load."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from typing import Final

import zmq

from benchmarks.daemon import Peer
from benchmarks.traffic import BODIES, BODY_BYTES, Fetcher, body_of, expect, taskid_of
from taskqueue.protocol.tasks import NewTasks, NewTasksReply
from taskqueue.protocol.values import NewTask

CONFIG: Final = """[daemon]
auto_create = true
[store]
durability = "interval"
[defaults]
rate = inf
"""
PUSH_BATCH: Final = 32
"""Tasks of one project in a message; a fetcher reports all tasks of a dispatch at once."""
WINDOW: Final = 16


class Load:
    """Tasks pushed to many projects in turn, and done as they come, of whichever project."""

    def __init__(self, url: str, projects: int) -> None:
        self._url = url
        self._projects = projects
        self._bodies = [body_of(BODY_BYTES) for _ in range(BODIES)]
        self._pushed = 0

    def run(self, count: int) -> float:
        """Run ``count`` lifecycles; return the seconds until all is acknowledged."""
        began_at = time.perf_counter()
        with Peer(self._url, f"producer-{os.urandom(8).hex()}") as producer, self._fetcher(count) as fetcher:
            messages = self._messages(producer, count)
            unanswered = sum(self._send(producer, messages) for _ in range(WINDOW))
            poller = zmq.Poller()
            for socket in (producer.socket, fetcher.peer.socket):
                poller.register(socket, zmq.POLLIN)
            while unanswered or fetcher.is_busy:
                for socket, _ in poller.poll():
                    if socket is fetcher.peer.socket:
                        fetcher.hear()
                        continue
                    self._hear(producer)
                    unanswered += self._send(producer, messages) - 1
        return time.perf_counter() - began_at

    def _fetcher(self, count: int) -> Fetcher:
        return Fetcher(self._url, count, 256, None)

    def _messages(self, producer: Peer, count: int) -> Iterator[NewTasks]:
        for start_at in range(self._pushed, self._pushed + count, PUSH_BATCH):
            numbers = range(start_at, min(start_at + PUSH_BATCH, self._pushed + count))
            project = f"site-{start_at // PUSH_BATCH % self._projects:04}"
            tasks: list[NewTask | None] = [self._task(number) for number in numbers]
            yield NewTasks(session=producer.session, n=producer.number(), project=project, tasks=tasks)
        self._pushed += count

    def _task(self, number: int) -> NewTask:
        taskid = taskid_of(number)
        return NewTask(taskid, f"http://example.com/{taskid}", body=self._bodies[number % BODIES])

    @staticmethod
    def _send(producer: Peer, messages: Iterator[NewTasks]) -> int:
        message = next(messages, None)
        if message is None:
            return 0
        producer.send(message)
        return 1

    @staticmethod
    def _hear(producer: Peer) -> None:
        reply = producer.receive()
        assert isinstance(reply, NewTasksReply), reply
        expect(Counter(reply.outcomes), "new", len(reply.outcomes))
