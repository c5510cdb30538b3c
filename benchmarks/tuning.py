"""Compares settings of RocksDB: what a lifecycle costs it, how fast known taskids are found, how long a start takes.

    python -m benchmarks.tuning                                    among a million known tasks, about ten minutes
    python -m benchmarks.tuning --known 10000000 --tasks 800000    the figures of docs/decisions/0003-rocksdb-options.md
    python -m benchmarks.tuning --only "as it is" --only "ids compressed by lz4" --cache 64

Each set of options has a process and a directory of its own. It is filled with known tasks, looks taskids up, nine of
ten of them known, in batches of 256 and settled, and then takes tasks through push, select and done in turns of
1,300, as a busy daemon does: a task is handed out two turns after it was pushed and done two turns later. The process
ends without closing the store, and another one opens it.

All figures but the open are CPU, so that other work on the machine counts less. Files come from the operating system's
cache. What it takes to make the tasks up is not counted.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from msgspec import Raw
from rocksdict import DBCompressionType

from benchmarks.harness import Column, Plot, Report, alternate, parser
from benchmarks.store import PROJECT, SESSION, body_of, disk_bytes, settle, taskid_of, written_bytes
from taskqueue.core.tasks.attempt import AttemptRecord
from taskqueue.core.tasks.task import PROCESSING, READY, SUCCESS, ready_key, time_key
from taskqueue.protocol.fields import Schedule
from taskqueue.store.contract import Batch
from taskqueue.store.records import layout, over_entries
from taskqueue.store.rocksdb import tuning
from taskqueue.store.rocksdb.rocks_store import RocksStore

TURN: Final = 1300
LAG: Final = 2
LOOKUPS: Final = 100_000
LOOKUP_BATCH: Final = 256
WARM_LOOKUPS: Final = 400_000
COMMAND: Final = "python -m benchmarks.tuning"
PLOT: Final = Plot(columns=("write", "background"))
COLUMNS: Final = [
    Column("known", "known ids", "/s"),
    Column("unknown", "unknown ids", "/s"),
    Column("write", "writing a lifecycle", "µs", 1),
    Column("background", "its flushes and compactions", "µs", 1),
    Column("bytes", "written a lifecycle", "B"),
    Column("rss", "RSS", "MB"),
    Column("disk", "disk a task", "B"),
    Column("open", "open after kill -9", "s", 2),
]

Options = Mapping[str, Any]
"""Names in ``tuning``, and what they are instead."""

# ------------------------------------------------------------------------------------------------ what is compared


AS_IT_IS: Final = "as it is"
VARIANTS: Final[dict[str, Options]] = {
    AS_IT_IS: {},
    "memtables of 8 MiB, each flushed": {"MEMTABLE_BYTES": 8 << 20, "MEMTABLES_MERGED": 1, "MEMTABLES_MOST": 2},
    "memtables of 32 MiB, each flushed": {"MEMTABLE_BYTES": 32 << 20, "MEMTABLES_MERGED": 1, "MEMTABLES_MOST": 2},
    "memtables of 8 MiB, 4 merged": {"MEMTABLE_BYTES": 8 << 20, "MEMTABLES_MERGED": 4, "MEMTABLES_MOST": 6},
    "memtables of 2 MiB, 8 merged": {"MEMTABLE_BYTES": 2 << 20},
    "log of 256 MiB": {"LOG_BYTES": 256 << 20},
    "tables of ids of 64 MiB": {"IDS_TABLE_BYTES": 64 << 20},
    "blocks of ids of 1 KiB": {"IDS_BLOCK_BYTES": 1 << 10},
    "blocks of ids of 16 KiB": {"IDS_BLOCK_BYTES": 16 << 10},
    "ids compressed by lz4": {"IDS_COMPRESSION": DBCompressionType.lz4()},
    "not compressed": {"COMPRESSION": DBCompressionType.none()},
    "compressed by zstd": {"COMPRESSION": DBCompressionType.zstd()},
}
"""Each differs from what the store has in one thing."""

# ------------------------------------------------------------------------------------------------ made-up turns


def fill(store: RocksStore, tasks: int) -> None:
    """Tasks that are known: successes."""
    epoch = store.begin()
    for first in range(0, tasks, TURN):
        store.write(epoch, Batch(dict([over(range(first, min(tasks, first + TURN)))])))
    settle(store)


def over(numbers: range) -> tuple[str, list[tuple[bytes, bytes]]]:
    """Their records."""
    return layout.IDS, [(key_of(n), record_of(SUCCESS, time_key(1.8e9 + n / 1000, n), n, 1.8e9)) for n in numbers]


def turns(first: int, tasks: int) -> Iterator[tuple[list[bytes], Batch]]:
    """Keys to be looked up, and what is written, turn by turn, until all are done."""
    groups = [range(at, min(first + tasks, at + TURN)) for at in range(first, first + tasks, TURN)]
    nobody = [range(0)] * LAG
    for new, taken, done in zip(
        [*groups, *nobody, *nobody], [*nobody, *groups, *nobody], [*nobody, *nobody, *groups], strict=True
    ):
        batch = Batch({"ids": [], "ready": [], "specs": [], "leases": [], "success": []}, {"ready": [], "leases": []})
        lay_new(batch, new)
        lay_taken(batch, taken)
        lay_done(batch, done)
        yield [key_of(n) for n in new], batch


def lay_new(batch: Batch, numbers: range) -> None:
    for n in numbers:
        record, value = record_of(READY, ready_key(0, n), 0, 0.0), spec_of(n)
        batch.puts["ids"].append((key_of(n), record))
        batch.puts["ready"].append((layout.order_key(PROJECT, ready_key(0, n)), record))
        batch.puts["specs"].append((layout.seq_key(PROJECT, n), value))


def lay_taken(batch: Batch, numbers: range) -> None:
    for n in numbers:
        lease = layout.encode((record_of(PROCESSING, n, n, 0.0), taskid_of(n), SESSION, n, 1000.5, 400.25))
        batch.deletes["ready"].append(layout.order_key(PROJECT, ready_key(0, n)))
        batch.puts["leases"].append((layout.order_key(PROJECT, n), lease))


def lay_done(batch: Batch, numbers: range) -> None:
    ids, records = over(numbers)
    batch.puts[ids] += records
    ended = AttemptRecord(1.8e9, "success", "fetcher-1", 0.5)
    for n in numbers:
        place = layout.order_key(PROJECT, time_key(1.8e9 + n / 1000, n))
        batch.deletes["leases"].append(layout.order_key(PROJECT, n))
        batch.puts["success"].append((place, over_entries.encode_success(taskid_of(n), ended)))


def key_of(n: int) -> bytes:
    return layout.id_key(PROJECT, taskid_of(n))


def record_of(state: int, place: int, token: int, crawled: float) -> bytes:
    return layout.RECORD.pack(state, 0, 0, 0, token, 0.0, crawled, place.to_bytes(16, "big"))


def spec_of(n: int) -> bytes:
    return layout.encode((taskid_of(n), f"https://example.com/articles/{n}", Schedule(), Raw(body_of(n))))


# ------------------------------------------------------------------------------------------------ measuring


def measure(store: RocksStore, path: Path, known: int, tasks: int) -> dict[str, float]:
    """All figures of one set of options but the open."""
    fill(store, known)
    figures = {"disk": disk_bytes(path) / known}
    look_up(store, known, WARM_LOOKUPS, 0.9, seed=0)
    figures["known"] = look_up(store, known, LOOKUPS, 0.9, seed=1)
    figures["unknown"] = look_up(store, known, LOOKUPS, 0.0, seed=2)
    figures |= lifecycles(store, known, tasks)
    return figures | {"rss": rss_bytes() / 1e6}


def look_up(store: RocksStore, known: int, count: int, share: float, seed: int) -> float:
    """Ids a second of CPU, this share of them known."""
    chance = random.Random(seed)
    keys = [key_of(chance.randrange(known) + (0 if chance.random() < share else 1 << 40)) for _ in range(count)]
    started = time.thread_time()
    for first in range(0, count, LOOKUP_BATCH):
        store.get(layout.IDS, keys[first : first + LOOKUP_BATCH])
    return count / (time.thread_time() - started)


def lifecycles(store: RocksStore, first: int, tasks: int) -> dict[str, float]:
    """CPU and bytes of so many new tasks."""
    epoch, written = store.begin(), written_bytes()
    process, thread, own = time.process_time(), time.thread_time(), 0.0
    for number, (keys, batch) in enumerate(turns(first, tasks)):
        store.get(layout.IDS, keys)
        started = time.thread_time()
        store.write(epoch, batch)
        own += time.thread_time() - started
        if number % 2:
            store.sync()
    settle(store)
    background = (time.process_time() - process) - (time.thread_time() - thread)
    figures = {"write": own, "background": max(0.0, background)}
    return {name: 1e6 * seconds / tasks for name, seconds in figures.items()} | {
        "bytes": (written_bytes() - written) / tasks
    }


def rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_seconds(path: Path) -> float:
    """CPU of an open, with what lies in the log."""
    started = time.process_time()
    store = RocksStore(path)
    seconds = time.process_time() - started
    store.close()
    return seconds


# ------------------------------------------------------------------------------------------------ processes


def in_another(options: Options, act: Callable[..., Any], *arguments: Any) -> Any:
    """What ``act`` reports in a process that has these options and ends without any farewell."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=report_and_die, args=(theirs, options, act, arguments))
    process.start()
    theirs.close()  # so that a child that dies ends the wait for its figures
    found = ours.recv()
    process.join()
    return found


def report_and_die(pipe: Connection, options: Options, act: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """``act`` reports itself, so that its store is still open at the end: one that is let go of flushes."""
    for name, value in options.items():
        if not hasattr(tuning, name):
            raise KeyError(name)
        setattr(tuning, name, value)
    act(pipe, *arguments)


def measure_at(pipe: Connection, path: Path, cache_bytes: int, known: int, tasks: int) -> None:
    store = RocksStore(path, cache_bytes=cache_bytes)
    pipe.send(measure(store, path, known, tasks))
    os._exit(0)


def open_at(pipe: Connection, path: Path) -> None:
    pipe.send(open_seconds(path))
    os._exit(0)


def all_figures(options: Options, arguments: argparse.Namespace) -> dict[str, float]:
    """Of one set of options."""
    with tempfile.TemporaryDirectory(dir=arguments.directory) as path:
        where = Path(path)
        figures = in_another(options, measure_at, where, arguments.cache << 20, arguments.known, arguments.tasks)
        return {**figures, "open": in_another(options, open_at, where)}


def main() -> None:
    """All rounds."""
    made = parser(__doc__, rounds=1)
    made.add_argument("--known", type=int, default=1_000_000)
    made.add_argument("--tasks", type=int, default=300_000, help="that go through a lifecycle")
    made.add_argument("--cache", type=int, default=256, help="MiB")
    made.add_argument("--only", choices=VARIANTS, action="append", help="this one; may be given again")
    made.add_argument("--directory", help="where the stores are made; default: the system's for temporary files")
    arguments = made.parse_args()
    report = Report(
        "tuning",
        "Options of RocksDB",
        "python -m benchmarks.tuning",
        COLUMNS,
        plot=Plot(columns=("write", "background")),
    )
    for _, label in alternate(arguments.rounds, arguments.only or list(VARIANTS)):
        figures = all_figures(VARIANTS[label], arguments)
        report.add(label, figures)
        print(label, {name: round(value, 2) for name, value in figures.items()}, flush=True)
    report.finish(arguments)


if __name__ == "__main__":
    main()
