"""Measure ``taskqueue store check`` as a whole process: CPU time and memory.

    python -m benchmarks.check                    300,000 tasks, about a minute
    python -m benchmarks.check --tasks 1m         the figures of docs/howto/backup-and-undo.md

One tenth of the tasks is delayed, and half of them have succeeded, every second one after a failed attempt in its
history. Taskids are hashes, as those of urls are.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Final

from benchmarks.harness import Column, Report, count_of
from benchmarks.store import PROJECT, batches_of, finish, hand_out, is_delayed, made_up, settle
from taskqueue.core.model.records import KeptAttempt, ProjectRecord, WriteSet
from taskqueue.core.model.task import Task
from taskqueue.protocol.values import Attempt, TaskCounts
from taskqueue.store.ledger import Ledger
from taskqueue.store.rocksdb.rocks_store import RocksStore

COMMAND: Final = "python -m benchmarks.check"
COLUMNS: Final = [Column("cpu", "CPU a million tasks", "s", 1), Column("memory", "memory at most", "MB")]

SUCCESS: Final = Attempt(1.8e9, "success", "fetcher-1", 0.5)
FAILED: Final = Attempt(1.79e9, "failed", "fetcher-1", 0.5, "HTTP 503")


def fill(path: Path, count: int) -> None:
    """Make a store with this many tasks."""
    with closing(RocksStore(path)) as store:
        ledger = Ledger(store)
        ledger.begin("benchmark")
        for numbers in batches_of(iter(range(count))):
            tasks = [made_up(number) for number in numbers]
            ledger.commit(WriteSet(moves=[(task, 0, 0, task.seq, True, False) for task in tasks]))
        for numbers in batches_of(filter(is_over, range(count))):
            end(ledger, [made_up(number) for number in numbers])
        ledger.commit(WriteSet(projects=[project(count)], next_project=PROJECT + 1))
        settle(store)


def end(ledger: Ledger, tasks: list[Task]) -> None:
    """Let tasks succeed, every second one at its second attempt."""
    old = [(task.state, task.key) for task in tasks]
    for task in tasks:
        hand_out(task)
        finish(task)
        task.ended, task.attempts = SUCCESS, 1 + task.seq // 2 % 2
    moves = [(task, *place, task.seq, False, False) for place, task in zip(old, tasks, strict=True)]
    failed = [KeptAttempt(PROJECT, task.taskid, 0, FAILED) for task in tasks if task.attempts > 1]
    ledger.commit(WriteSet(moves=moves, attempts=failed))


def is_over(number: int) -> bool:
    """Whether the task of this number has succeeded."""
    return number % 2 == 0


def project(count: int) -> ProjectRecord:
    """Make the record of the tasks' project."""
    over, delayed = sum(map(is_over, range(count))), sum(map(is_delayed, range(count)))
    counts = TaskCounts(ready=count - over - delayed, delayed=delayed, success=over)
    return ProjectRecord(PROJECT, "bench", counts=counts, unfinished=count - over)


def check(store: Path) -> tuple[float, float]:
    """Check a store, which must be sound; return seconds of CPU, and peak memory in MB."""
    command = [sys.executable, "-m", "taskqueue", "store", "check", str(store)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"the check ended with exit status {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000


def main() -> None:
    """Make a store, and check it several times."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--tasks", type=count_of, default=300_000)
    made.add_argument("--rounds", type=int, default=5)
    made.add_argument("--keep", type=Path, help="folder for the store, which is kept")
    options = made.parse_args()
    with tempfile.TemporaryDirectory(prefix="taskqueue-bench-") as folder:
        store = options.keep or Path(folder) / "store"
        # In a process of its own: a child's peak memory starts at its parent's.
        filling = multiprocessing.get_context("spawn").Process(target=fill, args=(store, options.tasks))
        filling.start()
        filling.join()
        report = Report("check", f"store check, {options.tasks:,} tasks", COMMAND, COLUMNS)
        for _ in range(options.rounds):
            seconds, memory = check(store)
            report.add("store check", {"cpu": seconds / options.tasks * 1e6, "memory": memory})
    report.print()


if __name__ == "__main__":
    main()
