"""What it costs that failed attempts are kept, and how long it takes to be told of them.

    python -m benchmarks.failures                      100,000 failures, about half a minute
    python -m benchmarks.failures --failures 1000000

A real daemon: so many tasks are pushed, of 1,000 hosts, and every one is reported as failed for good, nearly each with
an error of its own; as many others succeed. ``CPU`` is the daemon's, from select to acknowledged. Then it is asked, by
a session that waits for each answer. A step is measured in this process, on the daemon's store: reading a page and
counting it, in CPU time.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Final, get_args

from benchmarks.daemon import Daemon
from benchmarks.harness import Column, Report
from benchmarks.traffic import Fetcher, Producer, expect, taskid_of
from taskqueue import Client
from taskqueue.core.admin.failure_counts import PAGE_FAILURES
from taskqueue.core.projects.failure_groups import FailureGroups
from taskqueue.core.tasks.failure import FailuresRef
from taskqueue.core.tasks.needs import Needs
from taskqueue.core.tasks.task import NO_FLOOR
from taskqueue.protocol.choices import FailuresBy
from taskqueue.protocol.fields import NewTask, TaskReport
from taskqueue.store.lookup import find
from taskqueue.store.rocksdb.rocks_store import RocksStore

COMMAND: Final = "python -m benchmarks.failures"
CONFIG: Final = "[defaults]\nrate = inf\nfail_pause_num = 0\n[projects.fails]\n[projects.works]\n"
COLUMNS: Final = [
    Column("cpu", "CPU a task", "µs", 1),
    Column("seconds", "answered in", "s", 3),
    Column("median", "median", "ms", 2),
    Column("longest", "longest", "ms", 2),
]
BATCH: Final = 256
HOSTS: Final = 1000
ASKED: Final = 5
"""Times, of which the median counts."""


class Failing(Fetcher):
    """Reports each task as failed, with one of many errors."""

    def _report(self, tasks: list[TaskReport | None]) -> None:
        super()._report([_failed(task) for task in tasks if task is not None])


def _failed(task: TaskReport) -> TaskReport:
    number = int(task.taskid[:6], 16)
    url = f"http://{number}.org/"
    error = f"HTTP {(503, 404, 500)[number % 3]} at {url}" if number % 4 else f"too slow: {number} ms"
    return TaskReport(task.project, task.taskid, task.token, ok=False, retry=False, error=error)


def main() -> None:
    """Fail, succeed, ask."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--failures", type=int, default=100_000)
    count = made.parse_args().failures
    report = Report("failures", f"{count:,} failed attempts", COMMAND, COLUMNS)
    with Daemon(CONFIG) as daemon:
        daemon.wait()
        report.add("a failure", {"cpu": run(daemon, "fails", Failing, range(count))})
        report.add("a success", {"cpu": run(daemon, "works", Fetcher, range(count, 2 * count))})
        for by in get_args(FailuresBy):
            report.add(f"taskqueue failures --by {by}", {"seconds": ask(daemon, by, count)})
        daemon.stop()
        for by in get_args(FailuresBy):
            report.add(f"a step, by {by}", steps(daemon, by))
    report.print()


def run(daemon: Daemon, project: str, kind: type[Fetcher], numbers: range) -> float:
    """Push these tasks, let them be run; microseconds of the daemon's CPU for running one."""
    producer = Producer(daemon.url)
    producer.begin(project, batches(numbers), window=8)
    while producer.is_busy:
        producer.hear()
    expect(producer.outcomes, "new", len(numbers))
    producer.close()
    before = daemon.cpu_seconds()
    with kind(daemon.url, len(numbers), BATCH, project) as fetcher:
        while fetcher.is_busy:
            fetcher.hear()
    return (daemon.cpu_seconds() - before) / len(numbers) * 1e6


def batches(numbers: range) -> Iterator[list[NewTask | None]]:
    for at in range(0, len(numbers), BATCH):
        yield [NewTask(taskid_of(n), f"http://site-{n % HOSTS}.org/{n}") for n in numbers[at : at + BATCH]]


def ask(daemon: Daemon, by: FailuresBy, count: int) -> float:
    """Seconds until the answer is here."""
    with Client(daemon.url) as client:
        seconds = []
        for _ in range(ASKED):
            began_at = time.perf_counter()
            assert client.tasks.failures(by=by).failures == count
            seconds.append(time.perf_counter() - began_at)
    return statistics.median(seconds)


def steps(daemon: Daemon, by: FailuresBy) -> dict[str, float]:
    """Milliseconds of reading and counting a page."""
    with closing(RocksStore(os.fspath(daemon.folder / "store"))) as store:
        groups, start, taken = FailureGroups(by), 1, []
        while start:
            began_at = time.thread_time()
            [page] = find(store, Needs(failures=[FailuresRef(start, NO_FLOOR - 1, PAGE_FAILURES)])).failures.values()
            groups.add(page.failures, (1,))
            start = page.next
            taken.append((time.thread_time() - began_at) * 1000)
    return {"median": statistics.median(taken), "longest": max(taken)}


if __name__ == "__main__":
    main()
