"""Cost of a task in a store that grows: rate, CPU, memory, disk, look-ups, starts.

    python -m benchmarks.growth                          0, 1, 3 and 10 million tasks: about two hours
    python -m benchmarks.growth --levels 0,1m --only known
    python -m benchmarks.growth --full                   30 million besides

Twice: with *known* tasks (pushed and done: what a crawler remembers so that it fetches no url twice), and with
*pending* tasks (pushed, waiting for their dispatch). The config is the default one, but for ``rate = inf``.

* Lifecycles (batches of 256, random taskids, bodies of 300 bytes) are done in the large store and, in turns within
  each round, in one that was empty when the level began. The share is the ratio of the two, so a machine that became
  slower meanwhile changes nothing.
* Look-ups are pushes of tasks in random order, nine of ten of them known. Nothing is written for these. As many
  pushes before them warm up the cache.
* A start is counted from the start of the process to the first task at a fetcher, Python's own start included: once
  after an orderly stop, once after kill -9 while tasks were pushed. What was acknowledged before it must be there.
* Memory is read before any restart, when nothing goes on; the peak is that of the whole filling. Disk is read when
  nothing is left to compact.
"""

from __future__ import annotations

import argparse
from typing import Final

from benchmarks.builds import add_option_of_one, only_build
from benchmarks.growing import Growing, peak_bytes, settle
from benchmarks.harness import Column, Goal, Plot, Report, count_of, parser
from benchmarks.processes import stay_on
from benchmarks.traffic import BODY_BYTES

COMMAND: Final = "python -m benchmarks.growth"
FULL: Final = 30_000_000
GOAL_LEVEL: Final = 10_000_000

RATES: Final = [
    Column("rate", "lifecycles", "/s"),
    Column("share", "of an empty store's", "%"),
    Column("cpu", "daemon CPU a task", "µs", 1),
]
LOOKUPS: Final = [
    Column("lookups", "look-ups", "/s"),
    Column("lookup_cpu", "daemon CPU a look-up", "µs", 1),
    Column("find", "of which in the store", "µs", 1),
]
SIZES: Final = [
    Column("rss", "memory", "MB"),
    Column("peak", "at its peak", "MB"),
    Column("disk", "disk a task", "B"),
]
STARTS: Final = [
    Column("clean", "start", "s", 2),
    Column("killed", "start after kill -9", "s", 2),
]


def main() -> None:
    """Make both reports."""
    options = parse()
    stay_on("1")
    levels = sorted({count_of(level) for level in options.levels.split(",")} | ({FULL} if options.full else set()))
    if options.only != "pending":
        grow_known(options, levels)
    if options.only != "known":
        grow_pending(options, levels)


def parse() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--levels", default="0,1m,3m,10m", help="numbers of tasks in the store to measure at")
    made.add_argument("--full", action="store_true", help="add 30 million tasks")
    made.add_argument("--tasks", default="100k", help="lifecycles, and look-ups, in a round")
    made.add_argument("--body", type=int, default=BODY_BYTES, help="bytes of a task's body")
    made.add_argument("--only", choices=("known", "pending"))
    add_option_of_one(made)
    return made.parse_args()


# ------------------------------------------------------------------------------------------------ the two


def grow_known(options: argparse.Namespace, levels: list[int]) -> None:
    """Grow a store of finished tasks."""
    top = label(most_wanted(levels))
    goals = [
        Goal(f"rate at {top} known, of that of an empty store", "share", top, "≥ 80 %"),
        Goal(f"look-ups a second at {top} known", "lookups", top, "≥ 90,000"),
        Goal(f"start with {top} known", "clean", top, "≤ 2 s"),
        Goal(f"start with {top} known after kill -9", "killed", top, "≤ 2 s"),
    ]
    columns = [*RATES, *LOOKUPS, *SIZES, *STARTS]
    report = Report("growth", "Growth: known tasks", COMMAND, columns, goals=goals, plot=plot("tasks known"))
    with Growing(options.body, only_build(options)) as growing:
        for level in levels:
            growing.do_to(level)
            measure_size(report, label(level), growing)
            measure_lookups(report, label(level), growing, options)
            measure_lifecycles(report, label(level), growing, options)
            measure_starts(report, label(level), growing, options)
            growing.do_waiting()
            report.finish(options)


def grow_pending(options: argparse.Namespace, levels: list[int]) -> None:
    """Grow a store of waiting tasks."""
    top = label(most_wanted(levels))
    goals = [
        Goal(f"memory with {top} pending", "rss", top, "≤ 500 MB"),
        Goal(f"start with {top} pending", "clean", top, "≤ 2 s"),
        Goal(f"start with {top} pending after kill -9", "killed", top, "≤ 2 s"),
    ]
    columns = [*RATES, *SIZES, *STARTS]
    report = Report(
        "growth-pending", "Growth: pending tasks", COMMAND, columns, goals=goals, plot=plot("tasks pending")
    )
    with Growing(options.body, only_build(options)) as growing:
        for level in levels:
            growing.push_to(level)
            measure_size(report, label(level), growing)
            measure_lifecycles(report, label(level), growing, options)
            measure_starts(report, label(level), growing, options)
            report.finish(options)


# ------------------------------------------------------------------------------------------------ at a level


def measure_size(report: Report, level: str, growing: Growing) -> None:
    """Measure memory, and disk once all background work has ended."""
    settle(growing.daemon)
    figures = {"rss": growing.daemon.rss_bytes() / 1e6, "peak": peak_bytes(growing.daemon.pid) / 1e6}
    if growing.size:
        figures["disk"] = growing.daemon.disk_bytes() / growing.size
    report.add(level, figures)


def measure_lookups(report: Report, level: str, growing: Growing, options: argparse.Namespace) -> None:
    """Measure look-ups, after as many to warm up."""
    for number in range(options.rounds + 1):
        figures = growing.lookups(count_of(options.tasks), chance=number)
        if number:
            report.add(level, figures)


def measure_lifecycles(report: Report, level: str, growing: Growing, options: argparse.Namespace) -> None:
    """Measure lifecycles in turns with a store that is empty at first."""
    count = count_of(options.tasks)
    with Growing(options.body, only_build(options)) as empty:
        for number in range(options.rounds):
            both = {}
            for one in (empty, growing) if number % 2 else (growing, empty):
                both[one] = one.lifecycles(count)
            share = 100 * both[growing]["rate"] / both[empty]["rate"]
            report.add(level, both[growing] | {"share": share})


def measure_starts(report: Report, level: str, growing: Growing, options: argparse.Namespace) -> None:
    """Measure starts while tasks are ready."""
    growing.push_to(growing.size + 1000)
    for _ in range(options.rounds):
        report.add(level, {"clean": growing.start_clean()})
    for _ in range(options.rounds):
        report.add(level, {"killed": growing.start_killed(count_of(options.tasks))})


def most_wanted(levels: list[int]) -> int:
    """Return the level of the goals, or the nearest to it."""
    return min(levels, key=lambda level: abs(level - GOAL_LEVEL))


def label(level: int) -> str:
    """Format the level as the label of a row."""
    return f"{level:,}"


def plot(x_label: str) -> Plot:
    """Plot lines; a cost that does not grow is a level line."""
    return Plot("lines", x_label=x_label)


if __name__ == "__main__":
    main()
