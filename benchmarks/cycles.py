"""A chain of tasks that wait for each other, pushed in three orders: what it costs to know that it closes no cycle.

    python -m benchmarks.cycles                        100,000 tasks
    python -m benchmarks.cycles --tasks 10000 --rounds 3

A real core on a real store, in this process, without a socket; a batch has its answer before the next one comes. Read
edges are those that searches read, each as often as it was read. Times are CPU, so that other work on the machine
counts less. The last row closes the chain: its single search crosses it from both ends, and finds the cycle.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final

from benchmarks.harness import Column, Report, parser
from benchmarks.store import taskid_of
from taskqueue.calendar import Calendar
from taskqueue.core.parts.now import Now
from taskqueue.core.scheduler import Scheduler
from taskqueue.core.settings.settings import CoreConfig
from taskqueue.protocol.fields import Boot, NewTask, Peer, Wall
from taskqueue.protocol.replies import NewTasksReply
from taskqueue.protocol.requests import Incoming, NewTasks
from taskqueue.store.ledger import Ledger
from taskqueue.store.rocksdb.rocks_store import RocksStore

COMMAND: Final = "python -m benchmarks.cycles"
COLUMNS: Final = [
    Column("cpu", "CPU a task", "µs", 1),
    Column("edges", "edges read a task", "", 2),
    Column("turns", "turns a batch", "", 1),
    Column("longest", "longest turn, CPU", "ms", 1),
]
ORDERS: Final = ("parents first", "children first", "in an order of chance")
CLOSING: Final = "closing the chain"
NOW: Final = Now(Wall(1_700_000_000.0), Boot(1_000.0))


class Core:
    """A core on a store.

    Attributes:
        edges, turns: read, and taken, so far.
        longest: CPU seconds of the longest turn.
    """

    def __init__(self, path: str) -> None:
        self.edges = self.turns = 0
        self.longest = 0.0
        self._numbers = count(1)
        self._ledger = Ledger(RocksStore(path))
        config = CoreConfig(projects={"chain": {}}, defaults={"rate": 0})
        self._core = Scheduler(self._ledger.begin("boot"), config, Calendar(), NOW)
        self._turn([])

    def push(self, tasks: Sequence[NewTask]) -> NewTasksReply:
        """Push a batch; returns its answer."""
        request = NewTasks(session="producer", n=next(self._numbers), project="chain", tasks=list(tasks))
        reply = self._turn([Incoming(Peer(b"producer"), request)])
        while reply is None:
            reply = self._turn([])
        return reply

    def close(self) -> None:
        """Close the store."""
        self._ledger.close()

    def _turn(self, heard: list[Incoming]) -> NewTasksReply | None:
        began = time.thread_time()
        turn = self._core.begin(NOW, heard)
        found = self._ledger.find(turn.needs)
        result = turn.decide(found)
        self._ledger.commit(result.writes)
        self.longest = max(self.longest, time.thread_time() - began)
        self.turns += 1
        self.edges += sum(len(page.edges) for walk in found.walks for page in walk.values())
        return next((said.message for said in result.outgoing if isinstance(said.message, NewTasksReply)), None)


def main() -> None:
    """All rounds."""
    options = parse()
    report = Report("cycles", "Chains, by the order in which they are pushed", COMMAND, COLUMNS)
    for number in range(options.rounds):
        for order in ORDERS:
            with tempfile.TemporaryDirectory() as folder:
                core = Core(folder)
                report.add(order, measure(core, chain(order, options.tasks, number), options.batch))
                if order == ORDERS[-1]:
                    report.add(CLOSING, measure(core, [link(options.tasks, 0)], 1))
                core.close()
    report.finish(options)


def parse() -> argparse.Namespace:
    """The command line."""
    made = parser(__doc__)
    made.add_argument("--tasks", type=int, default=100_000)
    made.add_argument("--batch", type=int, default=1_000)
    return made.parse_args()


def measure(core: Core, tasks: Sequence[NewTask], batch: int) -> dict[str, float]:
    """Push them all."""
    core.edges = core.turns = 0
    core.longest = 0.0
    began = time.thread_time()
    for some in batches(tasks, batch):
        core.push(some)
    seconds = time.thread_time() - began
    return {
        "cpu": 1e6 * seconds / len(tasks),
        "edges": core.edges / len(tasks),
        "turns": core.turns * batch / len(tasks),
        "longest": 1e3 * core.longest,
    }


def batches(tasks: Sequence[NewTask], size: int) -> Iterator[Sequence[NewTask]]:
    """The tasks, so many at a time."""
    for first in range(0, len(tasks), size):
        yield tasks[first : first + size]


def chain(order: str, tasks: int, seed: int) -> list[NewTask]:
    """Tasks 1 to ``tasks``, each of which waits for the one before it; the first one waits for number 0."""
    links = [link(number - 1, number) for number in range(1, tasks + 1)]
    if order == ORDERS[1]:
        links.reverse()
    elif order == ORDERS[2]:
        random.Random(seed).shuffle(links)
    return links


def link(parent: int, child: int) -> NewTask:
    """A task that waits for another."""
    return NewTask(taskid_of(child), "http://example.org/", depends_on=(taskid_of(parent),))


if __name__ == "__main__":
    main()
