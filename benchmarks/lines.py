"""Lines that carry a task at a time from a producer to a waiting fetcher, in three systems (``benchmarks.latency``).

Everything to send is made before the clock starts; the clock stops when the fetcher's socket has given the task. Then
the task is finished, and all answers are taken, before the next one.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from math import inf
from types import TracebackType
from typing import Any, Final, Protocol, Self

from benchmarks.daemon import Peer
from benchmarks.peers import redis
from benchmarks.peers.service import CHUNK_BYTES, connect
from benchmarks.traffic import body_of
from taskqueue.protocol.codec import decode_outgoing, encode
from taskqueue.protocol.fetchers import Hello, Select, Welcome
from taskqueue.protocol.projects import ProjectReply, ProjectSet
from taskqueue.protocol.tasks import Done, DoneReply, NewTasks, NewTasksReply
from taskqueue.protocol.values import NewTask, TaskReport

NAME: Final = "probe"
"""Name of the project, tube or list; the load uses another one."""
BODY_BYTES: Final = 300


class Line(Protocol):
    """Producer and fetcher of a system."""

    def hand_over(self) -> float:
        """Push one task; return the seconds until the waiting fetcher has it."""


class Connections:
    """Line that closes its connections at its end."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


class OurLine(Connections):
    """Line of two sessions."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._producer = self._stack.enter_context(Peer(url, f"producer-{os.urandom(8).hex()}"))
        self._fetcher = self._stack.enter_context(Peer(url, f"fetcher-{os.urandom(8).hex()}"))
        self._body = body_of(BODY_BYTES)
        producer, fetcher = self._producer, self._fetcher
        producer.send(ProjectSet(session=producer.session, n=producer.number(), project=NAME, settings={"rate": inf}))
        self._expect(producer, ProjectReply)
        fetcher.send(Hello(session=fetcher.session, n=fetcher.number(), capacity=1, projects=[NAME]))
        self._expect(fetcher, Welcome)

    def hand_over(self) -> float:
        producer, fetcher = self._producer, self._fetcher
        task = NewTask(os.urandom(16).hex(), "http://example.com/", body=self._body)
        frame = encode(NewTasks(session=producer.session, n=producer.number(), project=NAME, tasks=[task]))
        began_at = time.perf_counter()
        producer.socket.send(frame)
        payload = fetcher.socket.recv()
        seconds = time.perf_counter() - began_at
        select = decode_outgoing(payload)
        assert isinstance(select, Select), select
        done: list[TaskReport | None] = [TaskReport(each.project, each.taskid, each.token) for each in select.tasks]
        fetcher.send(Done(session=fetcher.session, n=fetcher.number(), tasks=done))
        self._expect(fetcher, DoneReply)
        self._expect(producer, NewTasksReply)
        return seconds

    def _expect(self, peer: Peer, kind: type[Any]) -> None:
        reply = peer.receive()
        assert isinstance(reply, kind), reply


class BeanstalkdLine(Connections):
    """Line of two connections; the fetcher's has reserved before a job is put."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self._producer = self._stack.enter_context(connect(address))
        self._fetcher = self._stack.enter_context(connect(address))
        self._body = os.urandom(BODY_BYTES).replace(b"\r\n", b"--")
        self._ask(self._producer, b"use " + NAME.encode())
        self._ask(self._fetcher, b"watch " + NAME.encode())
        self._ask(self._fetcher, b"ignore default")

    def hand_over(self) -> float:
        self._fetcher.sendall(b"reserve\r\n")
        command = b"put 0 0 600 %d\r\n%b\r\n" % (len(self._body), self._body)
        time.sleep(0.0005)  # until the fetcher waits
        began_at = time.perf_counter()
        self._producer.sendall(command)
        came = self._fetcher.recv(CHUNK_BYTES)
        seconds = time.perf_counter() - began_at
        while not came.endswith(self._body + b"\r\n"):
            came += self._fetcher.recv(CHUNK_BYTES)
        self._producer.recv(CHUNK_BYTES)
        self._ask(self._fetcher, b"delete " + came.split()[1])
        return seconds

    def _ask(self, sock: Any, command: bytes) -> None:
        sock.sendall(command + b"\r\n")
        answer = sock.recv(CHUNK_BYTES)
        assert answer.split()[0] in {b"USING", b"WATCHING", b"DELETED"}, answer


class RedisLine(Connections):
    """Line through a list: LPUSH and BRPOP, which leaves nothing to finish."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self._producer = redis.Connection(self._stack.enter_context(connect(address)))
        self._fetcher = redis.Connection(self._stack.enter_context(connect(address)))
        self._push = redis.packed(b"LPUSH", NAME.encode(), os.urandom(BODY_BYTES))
        self._pop = redis.packed(b"BRPOP", NAME.encode(), b"0")

    def hand_over(self) -> float:
        self._fetcher.send_packed(self._pop)
        time.sleep(0.0005)  # until the fetcher waits
        began_at = time.perf_counter()
        self._producer.send_packed(self._push)
        self._fetcher.receive()
        seconds = time.perf_counter() - began_at
        self._producer.receive()
        return seconds
