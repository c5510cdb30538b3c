"""A batch of tasks of which nine in ten are known: the cost of a known one, and that nothing is written for it.

    python -m benchmarks.known                       among a million known tasks
    python -m benchmarks.known --known 100000 --rounds 2

Crawlers find the same links again and again. Three kinds of batches of 256, in turns, each of bodies of 300 bytes:

* all new;
* nine of ten known, in random order, the rest new;
* all known: the daemon must write nothing but the outcome of the request, which answers a repeat of it.

Bytes are those that the daemon wrote to files (``/proc``, wchar), including what RocksDB flushed and compacted
meanwhile.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import Final

from benchmarks.builds import add_option_of_one, only_build
from benchmarks.daemon import Daemon
from benchmarks.growing import Growing, settle
from benchmarks.harness import Column, Ratio, Report, alternate, parser
from benchmarks.processes import stay_on

COMMAND: Final = "python -m benchmarks.known"
COLUMNS: Final = [
    Column("rate", "pushed", "/s"),
    Column("cpu", "daemon CPU a task", "µs", 1),
    Column("find", "look-up a task", "µs", 1),
    Column("keep", "write a task", "µs", 1),
    Column("bytes", "written a task", "B", 1),
    Column("changed", "tasks that changed something", "%", 1),
]
NEW: Final = "all new"
MOSTLY: Final = "nine of ten known"
ALL: Final = "all known"
SHARES: Final = {NEW: 0.0, MOSTLY: 0.9, ALL: 1.0}
RATIOS: Final = [
    Ratio("CPU, all known : all new", "cpu", ALL, NEW),
    Ratio("bytes written, all known : all new", "bytes", ALL, NEW),
    Ratio("bytes written, nine of ten known : all new", "bytes", MOSTLY, NEW),
]


def main() -> None:
    """Run all rounds."""
    options = parse()
    stay_on("1")
    report = Report("known", "Known tasks", COMMAND, COLUMNS, RATIOS)
    with Growing(options.body, only_build(options)) as growing:
        growing.push_to(options.known)
        settle(growing.daemon)
        for number, kind in alternate(options.rounds, list(SHARES)):
            report.add(kind, measure(growing, options.tasks, SHARES[kind], number))
    report.finish(options)


def parse() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--known", type=int, default=1_000_000)
    made.add_argument("--tasks", type=int, default=100_000, help="tasks of each kind in a round")
    made.add_argument("--body", type=int, default=300, help="bytes of a task's body")
    add_option_of_one(made)
    return made.parse_args()


def measure(growing: Growing, tasks: int, share: float, seed: int) -> dict[str, float]:
    """Push tasks, ``share`` of them known."""
    chance = random.Random(seed)
    known = growing.size
    fresh = iter(growing.next(tasks - int(share * tasks)))
    is_known = [True] * int(share * tasks) + [False] * (tasks - int(share * tasks))
    chance.shuffle(is_known)
    numbers = [chance.randrange(known) if each else next(fresh) for each in is_known]
    before, written = growing.meters(), written_bytes(growing.daemon)
    figures, outcomes = growing.pushed(numbers)
    after = growing.meters()
    return figures | {
        "find": 1e6 * (after["find_seconds"] - before["find_seconds"]) / tasks,
        "keep": 1e6 * (after["keep_seconds"] - before["keep_seconds"]) / tasks,
        "bytes": (written_bytes(growing.daemon) - written) / tasks,
        "changed": 100 * (tasks - outcomes["ignored"]) / tasks,
    }


def written_bytes(daemon: Daemon) -> int:
    """Read the bytes that the daemon has written to files since its start."""
    lines = Path(f"/proc/{daemon.pid}/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["wchar"])


if __name__ == "__main__":
    main()
