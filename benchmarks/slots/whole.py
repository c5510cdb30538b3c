"""The whole daemon with slots: pushed to, restarted and run over loopback, from its own process."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

from benchmarks.daemon import Daemon, Peer
from benchmarks.growing import peak_bytes, settle
from benchmarks.idle import SAVED_SECONDS, watch
from benchmarks.traffic import BODIES, EVERYTHING, PROJECT, Fetcher, Producer, body_of, expect, taskid_of
from taskqueue.protocol.fetchers import Hello, Select
from taskqueue.protocol.values import NewTask

CONFIG: Final = """[store]
durability = "{durability}"
[projects.{project}]
rate = inf
slot.by = "{slot}"
slot.delay = {delay}
"""
BODY_BYTES: Final = 300
FILL_BATCH: Final = 1000
BATCH: Final = 256
WINDOW: Final = 8
SHORT: Final = 0.01
"""Seconds between the tasks of a slot, short enough that 1,000 slots keep a fetcher busy."""
STEP: Final = 7_368_787
"""Prime with which the tasks visit all hosts in each round, out of the order of their numbers."""
LONG: Final = 36_000.0
"""Seconds that outlast the benchmark."""


class Whole:
    """Daemon whose project has tasks of many hosts.

    Args:
        hosts: number of hosts; 0: the project has no slots.
        delay: seconds between tasks of a slot.
    """

    def __init__(self, hosts: int, durability: str, delay: float = SHORT) -> None:
        slot = "host" if hosts else "none"
        self._hosts = hosts or 1
        self._bodies = [body_of(BODY_BYTES) for _ in range(BODIES)]
        self._pushed = 0
        self.daemon = Daemon(CONFIG.format(durability=durability, project=PROJECT, slot=slot, delay=delay))

    def __enter__(self) -> Self:
        self.daemon.__enter__()
        self.daemon.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.daemon.__exit__(kind, error, trace)

    def push(self, count: int) -> dict[str, float]:
        """Push ``count`` tasks, host by host in turns; return their rate, and the cost of one."""
        producer = Producer(self.daemon.url)
        cpu, began_at = self.daemon.cpu_seconds(), time.perf_counter()
        producer.begin(PROJECT, self._batches(range(self._pushed, self._pushed + count)), WINDOW)
        while producer.is_busy:
            producer.hear()
        seconds = time.perf_counter() - began_at
        expect(producer.outcomes, "new", count)
        producer.close()
        self._pushed += count
        return {"push": count / seconds, "push_cpu": (self.daemon.cpu_seconds() - cpu) / count * 1e6}

    def run(self, count: int) -> dict[str, float]:
        """Run ``count`` tasks; return their rate, and the cost of one."""
        cpu, began_at = self.daemon.cpu_seconds(), time.perf_counter()
        with Fetcher(self.daemon.url, count, BATCH, PROJECT) as fetcher:
            while fetcher.is_busy:
                fetcher.hear()
        seconds = time.perf_counter() - began_at
        return {"run": count / seconds, "run_cpu": (self.daemon.cpu_seconds() - cpu) / count * 1e6}

    def start(self) -> dict[str, float]:
        """Stop and start; return the seconds from the start to the first dispatched task."""
        self.daemon.stop()
        began_at = time.perf_counter()
        self.daemon.start()
        self.daemon.wait()
        with Peer(self.daemon.url, f"first-{os.urandom(8).hex()}") as peer:
            peer.send(Hello(session=peer.session, n=peer.number(), capacity=1, projects=[PROJECT]))
            while not isinstance(peer.receive(), Select):
                pass
            seconds = time.perf_counter() - began_at
            number = peer.number()
            peer.send(Hello(session=peer.session, n=number, capacity=0, seen=EVERYTHING))
            while getattr(peer.receive(), "n", 0) != number:
                pass
        return {"start": seconds}

    def memory(self) -> dict[str, float]:
        """Measure current and peak memory, and the size of the store on disk."""
        return {
            "rss": self.daemon.rss_bytes() / 1e6,
            "peak": peak_bytes(self.daemon.pid) / 1e6,
            "disk": self.daemon.disk_bytes() / max(1, self._pushed),
        }

    def idle(self, seconds: int) -> dict[str, float]:
        """Measure CPU and turns of a minute without requests, after everything has been saved."""
        time.sleep(SAVED_SECONDS)
        settle(self.daemon)
        return watch(self.daemon, seconds)

    def _batches(self, numbers: range) -> Iterator[list[NewTask | None]]:
        for at in range(numbers.start, numbers.stop, FILL_BATCH):
            yield [self._task(number) for number in range(at, min(numbers.stop, at + FILL_BATCH))]

    def _task(self, number: int) -> NewTask:
        taskid = taskid_of(number)
        url = f"http://www.site-{self._host(number)}.example.org/{taskid}"
        return NewTask(taskid, url, body=self._bodies[number % BODIES])

    def _host(self, number: int) -> int:
        return number * STEP % self._hosts
