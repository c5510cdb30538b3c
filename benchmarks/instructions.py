"""Instructions of a lifecycle in the core and the ledger, on a store in memory: identical in each run of the same code.

    python -m benchmarks.instructions                       of this checkout
    python -m benchmarks.instructions --beside ../before    and of another one, which is run with its own code

Push → select → done in batches of 256, and one task at a time, decoded from frames, without sockets and disks. Counted
by ``cachegrind`` of the package valgrind, in two runs of different lengths, of which the difference counts. A run takes
half a minute for each checkout.
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
from itertools import count
from math import inf
from pathlib import Path
from typing import Final

from benchmarks.harness import Column, Ratio, Report, parser
from benchmarks.peers.service import not_on_path
from taskqueue.calendar import Calendar
from taskqueue.core.model.now import Now
from taskqueue.core.scheduler import Scheduler
from taskqueue.protocol.codec import decode_request, encode
from taskqueue.protocol.fetchers import Hello, Select
from taskqueue.protocol.fields import Boot, Peer, Wall
from taskqueue.protocol.messages import AnyRequest, Incoming, Outgoing
from taskqueue.protocol.tasks import Done, NewTasks
from taskqueue.protocol.values import Assignment, NewTask, TaskReport
from taskqueue.settings.settings import CoreConfig
from taskqueue.store.ledger import Ledger
from tests.memory_store import Disk, MemoryStore

LENGTHS: Final = {256: (4, 12), 1: (20, 120)}
"""Batches of the two runs, by tasks a batch."""
HERE, THERE = "this checkout", "the other one"
COLUMNS: Final = [
    Column("instructions", "instructions a lifecycle, 256 tasks a batch"),
    Column("instructions_alone", "instructions a lifecycle, one task a batch"),
]
RATIOS: Final = [
    Ratio("this checkout, against the other one", "instructions", HERE, THERE),
    Ratio("the same, one task a batch", "instructions_alone", HERE, THERE),
]


def main() -> None:
    """Measure, or (with ``--batches``) be measured."""
    options = parse()
    if options.batches:
        gc.disable()  # collections are too rare for a run of this length to have its share
        Replay(options.batch).run(options.batches)
        return
    report = Report("instructions", "Instructions of a lifecycle", "python -m benchmarks.instructions", COLUMNS, RATIOS)
    folders = {HERE: Path(__file__).parents[1]} | ({THERE: Path(options.beside)} if options.beside else {})
    for label, folder in folders.items():
        if why := not_on_path("valgrind"):
            report.missing(label, why)
        else:
            counted = [of_lifecycle(folder, batch) for batch in LENGTHS]
            report.add(label, {column.key: each for column, each in zip(COLUMNS, counted, strict=True)})
    report.finish(options)


def parse() -> argparse.Namespace:
    made = parser(__doc__, rounds=1)
    made.add_argument("--beside", help="folder of another checkout")
    made.add_argument("--batches", type=int, default=0, help=argparse.SUPPRESS)
    made.add_argument("--batch", type=int, default=0, help=argparse.SUPPRESS)
    options: argparse.Namespace = made.parse_args()
    return options


def of_lifecycle(folder: Path, batch: int) -> float:
    """Count instructions per lifecycle in batches of this size, with the code in a folder."""
    short, long = LENGTHS[batch]
    return (instructions(folder, batch, long) - instructions(folder, batch, short)) / (long - short) / batch


def instructions(folder: Path, batch: int, batches: int) -> int:
    """Count instructions of a run of this many batches, with the code in a folder."""
    tool = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    program = [sys.executable, __file__, "--batches", str(batches), "--batch", str(batch)]
    paths = os.pathsep.join([str(folder), str(Path(__file__).parents[1])])
    environment = os.environ | {"PYTHONPATH": paths, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    ended = subprocess.run([*tool, *program], env=environment, capture_output=True, text=True, check=True)
    (line,) = (line for line in ended.stderr.splitlines() if "I " in line and "refs" in line)
    return int(line.rpartition(":")[2].replace(",", ""))


class Replay:
    """Scheduler on a store in memory, with a producer and a fetcher that work in batches of one size."""

    def __init__(self, batch: int) -> None:
        self._batch = batch
        self._ledger = Ledger(MemoryStore(Disk()))
        loaded = self._ledger.begin("boot", make_secret=bytes)
        config = CoreConfig(defaults={"rate": inf}, projects={"bench": {}})
        self._scheduler = Scheduler(loaded, config, Calendar(), Now(Wall(1.7e9), Boot(1.0)))
        self._numbers = count(1)
        self._turns = 0

    def run(self, batches: int) -> None:
        """Push and run this many batches."""
        self._turn(Hello(session="fetcher", n=next(self._numbers), capacity=4 * self._batch, name="fetcher"))
        for batch in range(batches):
            numbers = range(batch * self._batch, (batch + 1) * self._batch)
            tasks: list[NewTask | None] = [NewTask(f"{n:032x}", f"http://example.org/{n}") for n in numbers]
            pushed = NewTasks(session="producer", n=next(self._numbers), project="bench", tasks=tasks)
            held = _handed(self._turn(pushed))
            while held:
                reports: list[TaskReport | None] = [TaskReport(each.project, each.taskid, each.token) for each in held]
                held = _handed(self._turn(Done(session="fetcher", n=next(self._numbers), tasks=reports)))

    def _turn(self, request: AnyRequest) -> list[Outgoing]:
        self._turns += 1
        now = Now(Wall(1.7e9 + self._turns / 1000), Boot(1.0 + self._turns / 1000))
        heard = Incoming(Peer(request.session.encode()), decode_request(encode(request))[0])
        turn = self._scheduler.begin(now, [heard])
        result = turn.decide(self._ledger.find(turn.needs))
        self._ledger.commit(result.writes)
        return result.outgoing


def _handed(said: list[Outgoing]) -> list[Assignment]:
    return [task for each in said if isinstance(each.message, Select) for task in each.message.tasks]


if __name__ == "__main__":
    main()
