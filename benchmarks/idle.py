"""Cost of a daemon that has nothing to do: 1,000 projects, and a million tasks that are due in days.

    python -m benchmarks.idle                                       a minute
    python -m benchmarks.idle --tasks 100000 --seconds 20

The measurement begins when the store has nothing left to compact and the counters of all projects have been saved, a
minute after the last push. No client is connected. CPU time is that of all the daemon's threads, to the nanosecond,
as the operating system's scheduler counts it.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path
from typing import Final

from benchmarks.builds import add_options, builds
from benchmarks.daemon import Daemon
from benchmarks.growing import peak_bytes, settle
from benchmarks.harness import Column, Goal, Report, parser
from benchmarks.processes import stay_on
from benchmarks.traffic import Traffic, expect
from taskqueue.protocol.values import Schedule

COMMAND: Final = "python -m benchmarks.idle"
CONFIG: Final = "[daemon]\nauto_create = true\n"
COLUMNS: Final = [
    Column("cpu", "CPU a minute", "ms", 2),
    Column("share", "of a core", "%", 4),
    Column("turns", "turns a minute"),
    Column("rss", "memory", "MB"),
    Column("peak", "at its peak", "MB"),
]
BATCH: Final = 1000
DAY: Final = 86_400
SAVED_SECONDS: Final = 65
"""Time after which all windows are saved (``core/moves/statistics.py``)."""


def main() -> None:
    """Fill, settle, watch."""
    options = parse()
    stay_on("1")
    title = f"{options.projects:,} projects, {options.tasks:,} delayed tasks"
    rows = {build.of(title): build.python for build in builds(options)}
    goals = [Goal(f"CPU of a daemon that has nothing to do: {row}", "share", row, "< 0.1 %") for row in rows]
    report = Report("idle", "Idle", COMMAND, COLUMNS, goals=goals)
    for row, python in rows.items():
        with Daemon(CONFIG, python=python) as daemon:
            fill(daemon, options.projects, options.tasks)
            time.sleep(SAVED_SECONDS)
            settle(daemon)
            for _ in range(options.rounds):
                report.add(row, watch(daemon, options.seconds))
    report.finish(options)


def parse() -> argparse.Namespace:
    made = parser(__doc__, rounds=1)
    made.add_argument("--projects", type=int, default=1000)
    made.add_argument("--tasks", type=int, default=1_000_000, help="tasks of all projects together")
    made.add_argument("--seconds", type=int, default=60)
    add_options(made)
    return made.parse_args()


def fill(daemon: Daemon, projects: int, tasks: int) -> None:
    """Push as many tasks into each project, due at random moments between one and thirty days from now."""
    chance, now = random.Random(1), time.time()
    daemon.wait()
    with Traffic(daemon.url) as traffic:
        for project in range(projects):
            numbers = range(project * tasks // projects, (project + 1) * tasks // projects)
            outcomes = traffic.push(
                numbers, BATCH, lambda _: Schedule(exetime=now + chance.uniform(DAY, 30 * DAY)), f"site-{project}"
            )
            expect(outcomes, "new", len(numbers))


def watch(daemon: Daemon, seconds: int) -> dict[str, float]:
    """Measure for ``seconds`` without asking the daemon anything; one of the turns is that of the second status."""
    turns, cpu = daemon.status().shell["turns"], cpu_nanoseconds(daemon.pid)
    time.sleep(seconds)
    cpu = cpu_nanoseconds(daemon.pid) - cpu
    turns = daemon.status().shell["turns"] - turns - 1
    return {
        "cpu": cpu / 1e6 * 60 / seconds,
        "share": cpu / 1e9 / seconds * 100,
        "turns": turns * 60 / seconds,
        "rss": daemon.rss_bytes() / 1e6,
        "peak": peak_bytes(daemon.pid) / 1e6,
    }


def cpu_nanoseconds(pid: int) -> int:
    """Sum the CPU time of all live threads."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))


if __name__ == "__main__":
    main()
