"""Price of what bulk operations keep for their undo, and a table of what an undo brings back.

    python -m benchmarks.undo                                a million tasks, some minutes
    python -m benchmarks.undo --tasks 100000 --rounds 3
    python -m benchmarks.undo --table                        the table only: 100,000 tasks of which 1,000 have changed

The price: the core on a RocksDB store, in this process, goes through one project's tasks with each action in turn, with
and without rows for an undo. Bytes are those that the process wrote to files meanwhile.

The table: a real daemon, a bulk cancel of all tasks of a project, ready, delayed and running ones, then retries of some
of them, then the undo.

Measured by ``python -m benchmarks.undo --rounds 3``, 2026-11-28, 2 cores of AMD EPYC, beside other work:

    reprioritise, with rows : without    CPU 1.15 (0.74 to 1.21)    bytes 0.83
    cancel, with rows : without          CPU 1.12 (1.04 to 1.13)    bytes 1.28
    retry, with rows : without           CPU 1.07 (1.04 to 1.20)    bytes 1.28
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from math import inf
from pathlib import Path
from typing import Any, Final

from benchmarks.daemon import Peer
from benchmarks.harness import Column, Ratio, Report, alternate, parser
from benchmarks.peers import ours
from benchmarks.traffic import PROJECT, Traffic, body_of, expect, taskid_of
from taskqueue import Client
from taskqueue.calendar import Calendar
from taskqueue.core.model.now import Now
from taskqueue.core.model.undo_rows import UndoRows
from taskqueue.core.scheduler import Scheduler
from taskqueue.core.steps import operations
from taskqueue.display.counts import STATES
from taskqueue.display.operations import undo_lines
from taskqueue.protocol.base import AnyReply
from taskqueue.protocol.fetchers import Hello
from taskqueue.protocol.fields import Boot, Wall
from taskqueue.protocol.fields import Peer as Sender
from taskqueue.protocol.messages import AnyRequest, Incoming
from taskqueue.protocol.operations import Bulk, OperationUndo
from taskqueue.protocol.tasks import NewTasks
from taskqueue.protocol.values import BulkAction, NewTask, Schedule, TaskFilter
from taskqueue.settings.settings import CoreConfig
from taskqueue.store.ledger import Ledger
from taskqueue.store.rocksdb.rocks_store import RocksStore

COMMAND: Final = "python -m benchmarks.undo"
COLUMNS: Final = [Column("cpu", "CPU a task", "µs", 2), Column("bytes", "written a task", "B", 1)]
ACTIONS: Final[tuple[tuple[BulkAction, TaskFilter], ...]] = (
    ("reprioritise", TaskFilter()),
    ("cancel", TaskFilter()),
    ("retry", TaskFilter(states=["cancelled"])),
)
WITH, WITHOUT = "with rows", "without"
BATCH: Final = 1000
SESSION: Final = "benchmark"
TABLE_TASKS: Final = 100_000
CHANGED: Final = 1_000
RUNNING: Final = 100


class Core:
    """Core on a store, in this process, with time that stands still."""

    def __init__(self, store: RocksStore) -> None:
        self._ledger = Ledger(store)
        config = CoreConfig(projects={PROJECT: {"rate": 0.0, "max_queue": inf}})
        self._now = Now(Wall(1.8e9), Boot(1000.0))
        self._scheduler = Scheduler(self._ledger.begin("benchmark"), config, Calendar(), self._now)
        self._numbers = count(1)

    def n(self) -> int:
        return next(self._numbers)

    def run(self, *requests: AnyRequest) -> list[AnyReply]:
        """Take turns until there is nothing to do; return the replies to the requests."""
        heard = [Incoming(Sender(b"benchmark"), each) for each in requests]
        replies: list[Any] = []
        while heard or self._scheduler.next_event_at(self._now) <= self._now.boot:
            turn = self._scheduler.begin(self._now, heard)
            result = turn.decide(self._ledger.find(turn.needs))
            self._ledger.commit(result.writes)
            replies += [each.message for each in result.outgoing]
            heard = []
        return replies

    def push(self, tasks: int) -> None:
        body = body_of(300)
        for first in range(0, tasks, BATCH):
            batch: list[NewTask | None] = [
                NewTask(taskid_of(number), f"http://example.org/{number}", Schedule(delay=1e6 * (number % 2)), body)
                for number in range(first, min(first + BATCH, tasks))
            ]
            self.run(NewTasks(session=SESSION, n=self.n(), project=PROJECT, tasks=batch))

    def operate(self, action: BulkAction, which: TaskFilter, priority: int) -> Any:
        """Run an operation on all tasks; return its reply."""
        request = Bulk(session=SESSION, n=self.n(), action=action, project=PROJECT, filter=which, priority=priority)
        return self.run(request)[0]

    def undo(self, operation: int) -> None:
        self.run(OperationUndo(session=SESSION, n=self.n(), id=operation))


def main() -> None:
    """Run all rounds, and print the tables."""
    made = parser(__doc__)
    made.add_argument("--tasks", type=int, default=1_000_000)
    made.add_argument("--table", action="store_true", help="only the table of what came back")
    options: argparse.Namespace = made.parse_args()
    if not options.table:
        measure(options)
    print_table()


def measure(options: argparse.Namespace) -> None:
    """Measure the price."""
    ratios = [
        Ratio(f"{what}, {action}: {WITH} : {WITHOUT}", key, f"{action} {WITH}", f"{action} {WITHOUT}", goal)
        for action, _ in ACTIONS
        for key, what, goal in (("cpu", "CPU", "≤ 1.3"), ("bytes", "bytes", ""))
    ]
    report = Report("undo", f"Bulk operations on {options.tasks:,} tasks", COMMAND, COLUMNS, ratios)
    with (
        tempfile.TemporaryDirectory(prefix="taskqueue-bench-") as folder,
        closing(RocksStore(Path(folder) / "store")) as store,
    ):
        core = Core(store)
        core.push(options.tasks)
        for number, kind in alternate(options.rounds, (WITH, WITHOUT)):
            for action, which in ACTIONS:
                with rows(kept=kind == WITH):
                    report.add(f"{action} {kind}", figures(core, options.tasks, action, which, number))
        reply = core.operate("cancel", TaskFilter(), 0)
        began_at = time.process_time()
        core.undo(reply.operation.id)
        report.add("undo of a cancel", {"cpu": 1e6 * (time.process_time() - began_at) / options.tasks})
    report.finish(options)


@contextmanager
def rows(*, kept: bool) -> Iterator[None]:
    """Let operations keep rows for an undo, or none."""
    if not kept:
        operations.__dict__["UndoRows"] = lambda: None
    yield
    operations.__dict__["UndoRows"] = UndoRows


def figures(core: Core, tasks: int, action: BulkAction, which: TaskFilter, priority: int) -> dict[str, float]:
    """Run an operation; return what it took a task."""
    written, began_at = written_bytes(), time.process_time()
    core.operate(action, which, priority)
    return {
        "cpu": 1e6 * (time.process_time() - began_at) / tasks,
        "bytes": (written_bytes() - written) / tasks,
    }


def written_bytes() -> int:
    """Read the bytes that this process has written to files since its start."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["wchar"])


# ------------------------------------------------------------------------------------------------ the table


def print_table() -> None:
    """Undo a cancel of tasks of which some have changed since; print what came back."""
    with ours.serve(ours.setting("commit"), "0") as daemon:
        daemon.wait()
        with Client(daemon.url) as client, Traffic(daemon.url) as traffic, Peer(daemon.url, "runs") as fetcher:
            client.projects.set(PROJECT, {"rate": inf})
            fetcher.send(Hello(session="runs", n=fetcher.number(), capacity=RUNNING))
            expect(traffic.push(range(TABLE_TASKS), BATCH, schedule, PROJECT), "new", TABLE_TASKS)
            before = client.projects.get(PROJECT).counts
            cancelled = client.operations.wait(client.operations.start("cancel", project=PROJECT, url="*").id)
            changed = [taskid_of(number) for number in range(0, TABLE_TASKS, TABLE_TASKS // CHANGED)]
            retry = client.tasks.retry(PROJECT, changed)
            between = client.projects.get(PROJECT).counts
            began_at = time.monotonic()
            view = client.operations.wait(client.operations.undo(cancelled.id).id)
            seconds = time.monotonic() - began_at
            after = client.projects.get(PROJECT).counts
    assert len(retry) == CHANGED
    print(f"\nCancel of {cancelled.matched:,} tasks, {CHANGED:,} changed since, undone in {seconds:.1f} s:\n")
    print("| state | before the cancel | before the undo | after the undo |\n|---|---:|---:|---:|")
    for state in STATES:
        numbers = [getattr(each, state) for each in (before, between, after)]
        if any(numbers):
            print(f"| {state} | {' | '.join(f'{number:,}' for number in numbers)} |")
    print("\n" + "\n".join(undo_lines(view)))


def schedule(number: int) -> Schedule:
    """Return the schedule of a task: three of ten are delayed, and one of ten goes first."""
    return Schedule(priority=int(number % 10 == 9), delay=86_400.0 if number % 10 < 3 else None)


if __name__ == "__main__":
    main()
