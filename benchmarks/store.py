"""Layouts of tasks in RocksDB: CPU, bytes written, refill, look-ups and disk space, side by side.

    python -m benchmarks.store                      one million tasks, about five minutes
    python -m benchmarks.store --tasks 1m,10m       the figures of docs/why/decisions/0001-record-layout.md
    python -m benchmarks.store --quick              100,000 tasks

Each layout runs in a process and a directory of its own, with the store's own tuning, through push (look the taskids
up, insert), select and done, in batches of 256 with a sync every 16. Taskids are random, bodies have 300 bytes, half
of them random; one task in ten is delayed, to a random time. All but the last layout handle bare bytes, so that they
differ in nothing else; the last one is the first one through the Ledger, with all the Python work of a real task.

CPU is that of the process, RocksDB's own threads included, without the making of the tasks. Bytes written are those
given to the operating system: log, flushes and compactions. Reads are per second of CPU too, so that other work on
the machine counts less; files come from the operating system's cache, not from a cold disk.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import md5
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, Protocol

from msgspec import Raw

from benchmarks.harness import count_of
from taskqueue.core.model.edges import TaskRef
from taskqueue.core.model.lease import Lease
from taskqueue.core.model.needs import Needs, OrderRef
from taskqueue.core.model.records import WriteSet
from taskqueue.core.model.spec import Spec
from taskqueue.core.model.task import DELAYED, PROCESSING, READY, SUCCESS, Move, Task, ready_key, time_key
from taskqueue.protocol.fields import Boot, Token
from taskqueue.protocol.values import Attempt, Schedule
from taskqueue.store.contract import Batch
from taskqueue.store.ledger import Ledger
from taskqueue.store.records import layout
from taskqueue.store.records.tasks import NEAR_SEQS
from taskqueue.store.rocksdb.rocks_store import RocksStore

BATCH: Final = 256
BATCHES_A_SYNC: Final = 16
REFILL: Final = 10_000
REFILLS: Final = 10
LOOKUPS: Final = 100_000
MOST_MOVED: Final = 1_000_000
PROJECT: Final = 1
DUE_WITHIN_SECONDS: Final = 30 * 86_400
SESSION: Final = "0123456789abcdef"

# ------------------------------------------------------------------------------------------------ made-up tasks

POOL: Final = random.Random(1).randbytes(1 << 20)
TEXT: Final = (b'{"fetch": {"headers": {"User-Agent": "crawler"}}, "process": {"callback": "on_page"}}' * 2)[:150]


def taskid_of(n: int) -> str:
    return md5(b"%d" % n).hexdigest()


def body_of(n: int) -> bytes:
    at = n * 7919 % (len(POOL) - 150)
    return b"\xc5\x01\x29" + TEXT[:147] + POOL[at : at + 150]


def is_delayed(n: int) -> bool:
    return n % 10 == 9


def made_up(n: int) -> Task:
    delayed = is_delayed(n)
    due = 1.7e9 + n * 2_654_435_761 % 2**32 / 2**32 * DUE_WITHIN_SECONDS
    return Task(
        PROJECT,
        taskid_of(n),
        DELAYED if delayed else READY,
        time_key(due, n) if delayed else ready_key(0, n),
        n,
        spec=Spec(f"https://example.com/articles/{n}", Schedule(), Raw(body_of(n))),
    )


def hand_out(task: Task) -> None:
    task.state, task.key, task.token = PROCESSING, task.seq, Token(task.seq)
    task.lease = Lease(SESSION, task.seq, Boot(1000.5), Boot(400.25))


def finish(task: Task) -> None:
    task.state, task.key, task.lease = SUCCESS, time_key(1.8e9 + task.seq / 1000, task.seq), None


# ------------------------------------------------------------------------------------------------ layouts


class Subject(Protocol):
    """Layout of tasks. ``push`` looks the taskids up first."""

    def push(self, tasks: list[Task]) -> None: ...

    def move(self, old: list[tuple[int, int]], tasks: list[Task]) -> None: ...

    def refill(self, state: int, start: int) -> int: ...

    def known(self, taskids: list[str]) -> int: ...


@dataclass(frozen=True)
class Shape:
    """Places of the parts of a task.

    Attributes:
        body: "seq" (apart, by seq), "taskid" (apart, by taskid) or "order" (in the record of the order).
        small: True if a small record by taskid lies apart; if False, the record by taskid has the body in it.
        over: True if finished tasks are indexed by time.
    """

    body: str
    small: bool = True
    over: bool = True


class Bare:
    """Shape on bare bytes."""

    def __init__(self, store: RocksStore, shape: Shape) -> None:
        self._store = store
        self._shape = shape
        self._epoch = store.begin()

    def push(self, tasks: list[Task]) -> None:
        self._store.get("ids", [layout.id_key(PROJECT, task.taskid) for task in tasks])
        batch = Batch({"ids": [], "ready": [], "delayed": [], "specs": []})
        for task in tasks:
            record, spec = self._record(task), self._spec(task)
            batch.puts["ids"].append(
                (layout.id_key(PROJECT, task.taskid), record if self._shape.small else record + spec)
            )
            batch.puts[layout.ORDERS[task.state]].append((self._place(task), self._value(task, record, spec)))
            if self._shape.small and self._shape.body != "order":
                batch.puts["specs"].append((self._spec_key(task), spec))
        self._store.write(self._epoch, batch)

    def move(self, old: list[tuple[int, int]], tasks: list[Task]) -> None:
        batch = Batch({"ids": [], "leases": [], "success": []}, {"ready": [], "leases": []})
        for (old_state, old_key), task in zip(old, tasks, strict=True):
            record, spec = self._record(task), self._spec(task) if self._has_body_in_records else b""
            batch.deletes[layout.ORDERS[old_state]].append(layout.order_key(PROJECT, old_key))
            if task.state != PROCESSING:
                whole = record if self._shape.small else record + spec
                batch.puts["ids"].append((layout.id_key(PROJECT, task.taskid), whole))
            if task.state == PROCESSING or self._shape.over:
                batch.puts[layout.ORDERS[task.state]].append((self._place(task), self._value(task, record, spec)))
        self._store.write(self._epoch, batch)

    def refill(self, state: int, start: int) -> int:
        end = layout.project_key(PROJECT + 1)
        entries = self._store.scan(layout.ORDERS[state], layout.order_key(PROJECT, start), end, REFILL)
        return len(self._specs_of(entries))

    def known(self, taskids: list[str]) -> int:
        values = self._store.get("ids", [layout.id_key(PROJECT, taskid) for taskid in taskids])
        return len(values) - values.count(None)

    @property
    def _has_body_in_records(self) -> bool:
        return self._shape.body == "order" or not self._shape.small

    def _record(self, task: Task) -> bytes:
        place = task.key.to_bytes(16, "big")
        return layout.RECORD.pack(task.state, 0, task.priority, 0, task.token, 0.0, 0.0, place)

    def _spec(self, task: Task) -> bytes:
        assert task.spec is not None
        return layout.encode_spec(task.taskid, task.spec)

    def _place(self, task: Task) -> bytes:
        return layout.order_key(PROJECT, task.key)

    def _spec_key(self, task: Task) -> bytes:
        if self._shape.body == "seq":
            return layout.seq_key(PROJECT, task.seq)
        return layout.id_key(PROJECT, task.taskid)

    def _value(self, task: Task, record: bytes, spec: bytes) -> bytes:
        """Make the value of the entry in the order: what can't be found from its key."""
        if self._shape.body == "order":
            return record + spec
        if not self._shape.small or task.state == SUCCESS:
            return task.taskid.encode()
        if self._shape.body == "taskid" or task.state == PROCESSING:
            return record + task.taskid.encode()
        return record

    def _specs_of(self, entries: list[tuple[bytes, bytes]]) -> list[bytes | None]:
        if self._shape.body == "order":
            return [value for _, value in entries]
        if not self._shape.small:
            return self._store.get("ids", [layout.project_key(PROJECT) + taskid for _, taskid in entries])
        if self._shape.body == "taskid":
            prefix = layout.project_key(PROJECT)
            return self._store.get("specs", [prefix + value[layout.RECORD.size :] for _, value in entries])
        return self._neighbours([layout.spec_key_of(key) for key, _ in entries])

    def _neighbours(self, keys: list[bytes]) -> list[bytes | None]:
        """Look keys up as ``lookup`` does: read on where keys are close together, look up the others."""
        specs: list[bytes | None] = []
        for first in range(0, len(keys), 1024):
            some = keys[first : first + 1024]
            near = {}
            if layout.seq_of(max(some)) - layout.seq_of(min(some)) <= NEAR_SEQS * len(some):
                near = dict(self._store.scan("specs", min(some), max(some) + b"\0", 2 * len(some)))
            specs += [near[key] for key in some if key in near]
            specs += self._store.get("specs", [key for key in some if key not in near])
        return specs


class ThroughLedger:
    """Real records, as the daemon has them; a finished task has its attempt beside it, in place of its success."""

    def __init__(self, store: RocksStore) -> None:
        self._ledger = Ledger(store)
        self._ledger.begin("benchmark")

    def push(self, tasks: list[Task]) -> None:
        self._ledger.find(Needs(tasks=[TaskRef(PROJECT, task.taskid) for task in tasks]))
        self._ledger.commit(WriteSet(moves=[(task, 0, 0, task.seq, True, False) for task in tasks]))

    def move(self, old: list[tuple[int, int]], tasks: list[Task]) -> None:
        moves: list[Move] = [(task, *place, task.seq, False, False) for place, task in zip(old, tasks, strict=True)]
        ended = Attempt(1.8e9, "success", "fetcher-1", 0.5)
        for task in tasks:
            task.ended = ended if task.state == SUCCESS else None
        self._ledger.commit(WriteSet(moves=moves))

    def refill(self, state: int, start: int) -> int:
        [found] = self._ledger.find(Needs(orders=[OrderRef(PROJECT, state, start, REFILL, 1 << 40)])).orders
        return len(found.tasks)

    def known(self, taskids: list[str]) -> int:
        return len(self._ledger.find(Needs(tasks=[TaskRef(PROJECT, taskid) for taskid in taskids])).tasks)


SUBJECTS: Final[dict[str, Callable[[RocksStore], Subject]]] = {
    "apart by seq": lambda store: Bare(store, Shape("seq")),
    "inline": lambda store: Bare(store, Shape("order")),
    "apart by taskid": lambda store: Bare(store, Shape("taskid")),
    "no small records": lambda store: Bare(store, Shape("taskid", small=False)),
    "no index of over": lambda store: Bare(store, Shape("seq", over=False)),
    "by seq, Ledger": ThroughLedger,
}
"""Layouts: the first is the store's; each of the others differs from it in one thing."""

# ------------------------------------------------------------------------------------------------ measuring


@dataclass
class Meter:
    """CPU of the measured parts and of RocksDB's threads; bytes given to the operating system."""

    store: RocksStore
    own_seconds: float = 0.0
    batches: int = 0
    _process: float = field(default_factory=time.process_time)
    _thread: float = field(default_factory=time.thread_time)
    _written: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._written = written_bytes()

    def measure(self, act: Callable[[], None]) -> None:
        started = time.thread_time()
        act()
        self.batches += 1
        if self.batches % BATCHES_A_SYNC == 0:
            self.store.sync()
        self.own_seconds += time.thread_time() - started

    def per_task(self, tasks: int) -> tuple[float, float]:
        """CPU µs and bytes written per task, after RocksDB has come to rest."""
        settle(self.store)
        others = (time.process_time() - self._process) - (time.thread_time() - self._thread)
        return (self.own_seconds + others) / tasks * 1e6, (written_bytes() - self._written) / tasks


def written_bytes() -> int:
    counters = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counters["wchar"])


def settle(store: RocksStore) -> None:
    """Wait until nothing is flushed or compacted any more."""
    while store.is_busy():
        time.sleep(0.2)


def per_second(count: Callable[[], int], times: int) -> float:
    """Compute the median rate of several readings."""
    readings = []
    for _ in range(times):
        started = time.thread_time()
        counted = count()
        readings.append(counted / (time.thread_time() - started))
    return statistics.median(readings)


def batches_of(numbers: Iterator[int]) -> Iterator[list[int]]:
    while batch := list(islice(numbers, BATCH)):
        yield batch


Figures = dict[str, float]


def measure(name: str, tasks: int, path: Path) -> Figures:
    """Measure all figures of one layout."""
    store = RocksStore(path)
    subject = SUBJECTS[name](store)
    figures: Figures = {}
    figures["push, CPU µs"], figures["push, bytes written"] = push(store, subject, tasks)
    figures["disk bytes a task, pushed"] = disk_bytes(path) / tasks
    figures |= reads(subject, tasks)
    ready = [n for n in range(min(tasks, MOST_MOVED)) if not is_delayed(n)]
    figures["select, CPU µs"], figures["select, bytes written"] = moved(store, subject, ready, hand_out)
    figures["done, CPU µs"], figures["done, bytes written"] = moved(store, subject, ready, finish)
    figures["lifecycle, CPU µs"] = sum(figures[f"{step}, CPU µs"] for step in ("push", "select", "done"))
    figures["lifecycle, bytes written"] = sum(figures[f"{step}, bytes written"] for step in ("push", "select", "done"))
    figures["disk bytes a task, done"] = disk_bytes(path) / tasks
    store.close()
    return figures


def push(store: RocksStore, subject: Subject, tasks: int) -> tuple[float, float]:
    meter = Meter(store)
    for numbers in batches_of(iter(range(tasks))):
        made = [made_up(n) for n in numbers]
        meter.measure(lambda made=made: subject.push(made))  # type: ignore[misc]
    return meter.per_task(tasks)


def moved(
    store: RocksStore, subject: Subject, numbers: list[int], change: Callable[[Task], None]
) -> tuple[float, float]:
    meter = Meter(store)
    for some in batches_of(iter(numbers)):
        tasks = [made_up(n) for n in some]
        if change is finish:
            for task in tasks:
                hand_out(task)
        old = [(task.state, task.key) for task in tasks]
        for task in tasks:
            change(task)
        meter.measure(lambda old=old, tasks=tasks: subject.move(old, tasks))  # type: ignore[misc]
    return meter.per_task(len(numbers))


def reads(subject: Subject, tasks: int) -> Figures:
    chance = random.Random(2)
    starts = iter([chance.randrange(max(1, tasks - 2 * REFILL)) for _ in range(REFILLS)])
    known = [taskid_of(chance.randrange(tasks)) for _ in range(LOOKUPS)]
    unknown = [taskid_of(tasks + n) for n in range(LOOKUPS)]
    return {
        "ready refilled/s": per_second(lambda: subject.refill(READY, ready_key(0, next(starts))), REFILLS),
        "delayed refilled/s": per_second(lambda: subject.refill(DELAYED, 0), REFILLS),
        "known ids/s": lookups(subject, known),
        "unknown ids/s": lookups(subject, unknown),
    }


def lookups(subject: Subject, taskids: list[str]) -> float:
    batches = [taskids[first : first + BATCH] for first in range(0, len(taskids), BATCH)]

    def look_up() -> int:
        for batch in batches:
            subject.known(batch)
        return len(taskids)

    return per_second(look_up, 1)


def disk_bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in path.iterdir())


# ------------------------------------------------------------------------------------------------ printing


def in_its_own_process(name: str, tasks: int, directory: str | None) -> Figures:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=report, args=(theirs, name, tasks, directory))
    process.start()
    theirs.close()  # so that a child that dies ends the wait for its figures
    figures: Figures = ours.recv()
    process.join()
    return figures


def report(pipe: Connection, name: str, tasks: int, directory: str | None) -> None:
    with tempfile.TemporaryDirectory(dir=directory) as path:
        pipe.send(measure(name, tasks, Path(path)))


def print_table(tasks: int, table: dict[str, Figures]) -> None:
    print(f"\n{tasks:,} tasks; {os.cpu_count()} cores, load {os.getloadavg()[1]:.1f}\n")
    print("| | " + " | ".join(table) + " |")
    print("|---|" + "---:|" * len(table))
    for figure in next(iter(table.values())):
        cells = (shown(figures[figure]) for figures in table.values())
        print(f"| {figure} | " + " | ".join(cells) + " |", flush=True)


def shown(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="1m", help="numbers of tasks (comma-separated)")
    parser.add_argument("--quick", action="store_true", help="measure 100,000 tasks")
    parser.add_argument("--only", choices=SUBJECTS, action="append", help="layout to measure (repeatable)")
    parser.add_argument("--directory", help="folder for the stores; default: that of temporary files")
    arguments = parser.parse_args()
    for tasks in map(count_of, ("100k" if arguments.quick else arguments.tasks).split(",")):
        names = arguments.only or list(SUBJECTS)
        print_table(tasks, {name: in_its_own_process(name, tasks, arguments.directory) for name in names})


if __name__ == "__main__":
    main()
