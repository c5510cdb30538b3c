"""Sizes of a task: bytes of messages and of disk; and the tables of docs/reference/sizing.md.

    python -m benchmarks.sizing                      some minutes
    python -m benchmarks.sizing --tasks 20000

Messages are counted by the daemon, without what TCP and keys add. One at a time, each push, dispatch and report is a
message of its own; bodies have 300 bytes. A link that is pushed again has no body. Of a task without its body
(``keep.success``) only what is known of it remains: disk is read after a compaction.

``benchmarks.report`` makes the tables of the page from this result and from those of ``benchmarks.growth``,
``benchmarks.idle`` and ``benchmarks.lifecycle``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from math import ceil, log10
from statistics import median
from typing import Final, NamedTuple

from benchmarks.daemon import Daemon, Peer
from benchmarks.growing import CONFIG, settle
from benchmarks.harness import Column, Report, Result, parser
from benchmarks.processes import stay_on
from benchmarks.traffic import BODY_BYTES, PROJECT, Traffic, taskid_of
from taskqueue.protocol.tasks import TaskReply, TaskShow

COMMAND: Final = "python -m benchmarks.sizing"
COLUMNS: Final = [
    Column("received", "received", "B"),
    Column("sent", "sent", "B"),
    Column("disk", "disk", "B"),
]
SINGLE: Final = "pushed and run, one at a time"
BATCHED: Final = "pushed and run, in batches of 256"
KNOWN: Final = "known, pushed again in batches of 256"
BARE: Final = "known, without url and body"
BATCH: Final = 256
LEAST_BODY: Final = 5
SINGLE_SHARE: Final = 20
"""Tasks in batches for each task that is run in messages of its own, which takes longer."""
SHORT_KEEP: Final = "keep.success = 1\n"
LOOKED_AT: Final = 100
LOOK_SECONDS: Final = 1.0

DAYS: Final = 30
LINKS: Final = 50
OURS: Final = "taskqueue, commit"
CRAWLS: Final = (100_000, 10_000_000, 1_000_000_000)
MEASURED_AT: Final = "10,000,000", "30,000,000"
"""Numbers of known tasks whose disk and whose look-ups count."""


def main() -> None:
    """Measure, and print the table."""
    options = parse()
    stay_on("1")
    report = Report("sizing", "Sizes of a task", COMMAND, COLUMNS)
    for _ in range(options.rounds):
        with Daemon(CONFIG) as daemon:
            daemon.status()
            measure_messages(report, daemon, options.tasks)
        with Daemon(CONFIG + SHORT_KEEP) as daemon:
            daemon.status()
            measure_bare(report, daemon, options.tasks)
    report.finish(options)


def parse() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--tasks", type=int, default=200_000)
    return made.parse_args()


def measure_messages(report: Report, daemon: Daemon, tasks: int) -> None:
    """Measure what goes through the socket."""
    few = tasks // SINGLE_SHARE
    with Traffic(daemon.url, BODY_BYTES) as traffic, Traffic(daemon.url, LEAST_BODY) as links:
        for label, numbers, batch in (
            (SINGLE, range(few), 1),
            (BATCHED, range(few, few + tasks), BATCH),
            (KNOWN, range(few, few + tasks), BATCH),
        ):
            before = daemon.status().shell
            if label == KNOWN:
                links.push(numbers, batch)
            else:
                traffic.lifecycles(numbers, batch)
            after, keys = daemon.status().shell, (("received", "bytes_in"), ("sent", "bytes_out"))
            report.add(label, {name: (after[key] - before[key]) / len(numbers) for name, key in keys})


def measure_bare(report: Report, daemon: Daemon, tasks: int) -> None:
    """Measure the disk of tasks whose url and body were dropped."""
    with Traffic(daemon.url, BODY_BYTES) as traffic:
        traffic.lifecycles(range(tasks), BATCH)
    with Peer(daemon.url, f"look-{os.urandom(8).hex()}") as peer:
        for number in range(0, tasks, max(1, tasks // LOOKED_AT)):
            while not _is_bare(peer, number):
                time.sleep(LOOK_SECONDS)
    settle(daemon)
    daemon.stop()
    command = [sys.executable, "-m", "taskqueue", "store", "compact", str(daemon.folder / "store")]
    subprocess.run(command, check=True, capture_output=True)
    report.add(BARE, {"disk": daemon.disk_bytes() / tasks})


def _is_bare(peer: Peer, number: int) -> bool:
    peer.send(TaskShow(session=peer.session, n=peer.number(), project=PROJECT, taskid=taskid_of(number)))
    reply = peer.receive()
    assert isinstance(reply, TaskReply), reply
    return reply.bare_since > 0


# ------------------------------------------------------------------------------------------------ the page


class Figure(NamedTuple):
    """Measured figure.

    Attributes:
        letter: its name in the arithmetic of the page.
        source: what measured it.
    """

    letter: str
    what: str
    value: float
    unit: str
    source: str


def figures(results: Sequence[Result]) -> Mapping[str, Figure]:
    """Take the figures of the page from results, by letter."""
    by_name = {result.name: result for result in results}

    def value(name: str, row: str, column: str) -> float:
        found = by_name[name].row(row)
        assert found is not None, f"{name} has no row {row}"
        return median(found.values[column])

    def messages(row: str) -> float:
        return value("sizing", row, "received") + value("sizing", row, "sent")

    most, looked = MEASURED_AT
    peak = max(
        median(row.values["peak"]) for name in ("growth", "growth-pending", "idle") for row in by_name[name].rows
    )
    made = [
        Figure("A", "daemon CPU of a page, in single calls", value("lifecycle-cpu", OURS, "cpu_1"), "µs", "lifecycle"),
        Figure("B", "daemon CPU of a link, of 30 million known", value("growth", looked, "lookup_cpu"), "µs", "growth"),
        Figure("C", "memory of the daemon, the more of both", peak, "MB", "growth`, `idle"),
        Figure("D", "disk of a known task without url and body", value("sizing", BARE, "disk"), "B", "sizing"),
        Figure("E", "disk of a task with a body of 300 bytes", value("growth", most, "disk"), "B", "growth"),
        Figure("F", "messages of a page", messages(SINGLE), "B", "sizing"),
        Figure("G", "messages of a known link", messages(KNOWN), "B", "sizing"),
    ]
    return {figure.letter: figure for figure in made}


def figure_table(results: Sequence[Result]) -> list[str]:
    """Format the measured figures."""
    head = ["|  | figure | measured | by `benchmarks.` |", "|---|---|---:|---|"]
    return head + [
        f"| {each.letter} | {each.what} | {each.value:,.0f} {each.unit} | `{each.source}` |"
        for each in figures(results).values()
    ]


def machine_table(results: Sequence[Result]) -> list[str]:
    """Format what machine a crawl takes."""
    head = [
        "| urls | pages/s | links/s | cores | memory, GB | disk, GB | without bodies, GB | network, kB/s | machine |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---|",
    ]
    found = {letter: figure.value for letter, figure in figures(results).items()}
    return head + [machine_row(urls, found) for urls in CRAWLS]


def machine_row(urls: int, found: Mapping[str, float]) -> str:
    """Format the row of a crawl, by the arithmetic that the page tells."""
    pages = urls / (DAYS * 86_400)
    links = LINKS * pages
    cores = (pages * found["A"] + links * found["B"]) / 1e6
    memory = found["C"] / 1e3 + urls * found["D"] / 1e9
    disk, bare = (urls * found[letter] / 1e9 for letter in ("E", "D"))
    network = (pages * found["F"] + links * found["G"]) / 1e3
    machine = f"{ceil(2 * cores)} cores, {power_of_two(memory)} GB, {one_two_five(2 * disk):,} GB of disk"
    shown = [f"{urls:,}", *map(three_digits, (pages, links, cores, memory, disk, bare, network)), machine]
    return f"| {' | '.join(shown).replace(' 1 cores', ' 1 core')} |"


def three_digits(value: float) -> str:
    """Format a number with three digits that count, or all of a larger one."""
    return f"{value:,.{max(0, 2 - int(log10(value) // 1))}f}"


def power_of_two(value: float) -> int:
    """Return the least power of two that is not below the value, from 1 on."""
    power = 1
    while power < value:
        power *= 2
    return power


def one_two_five(value: float) -> int:
    """Return the least of 1, 2, 5, 10, 20, 50, … that is not below the value."""
    return next(step for step in _steps() if step >= value)


def _steps() -> Iterator[int]:
    ten = 1
    while True:
        yield from (ten, 2 * ten, 5 * ten)
        ten *= 10


if __name__ == "__main__":
    main()
