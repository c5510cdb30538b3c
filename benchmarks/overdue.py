"""Latency of one project's tasks while a million tasks of another project become ready at the same moment.

    python -m benchmarks.overdue
    python -m benchmarks.overdue --tasks 100000 --rounds 2
    python -m benchmarks.overdue --compiled VENV --before VENV

All tasks of one project are due at the same moment. A producer pushes one task at a time of another project to a
waiting fetcher, as in ``benchmarks.latency``: before that moment, and from it on until none is delayed. In the rows
"beside a load" another producer and another fetcher work in a third project, LOAD_RATE tasks a second in messages of
16.

Measured by ``python -m benchmarks.overdue --tasks 60000 --rounds 3``, 2026-11-26, 2 cores of AMD EPYC, interpreted:

    while they are delayed                       p50 0.35 ms   p99 0.70 ms
    while they become ready                      p50 1.90 ms   p99 3.00 ms   60,146 become ready a second
    while they are delayed, beside a load        p50 0.56 ms   p99 1.38 ms
    while they become ready, beside a load       p50 1.95 ms   p99 3.22 ms   49,237 become ready a second

The goal, twice the p99 without them, is not met. A task waits for the current turn, and a turn that makes 64 tasks
ready takes a millisecond. With 16 a turn the ratio beside a load is 2.2, but a third fewer become ready a second;
with 2,048 the p99 is 25 ms.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Final

from benchmarks.builds import Build, add_options, builds
from benchmarks.contest import Load
from benchmarks.daemon import Peer
from benchmarks.harness import Column, Ratio, Report, alternate, parser
from benchmarks.lateness import quantile
from benchmarks.lines import OurLine
from benchmarks.peers import ours
from benchmarks.processes import start_module, stay_on, stop
from benchmarks.traffic import Traffic, expect
from taskqueue.protocol.projects import ProjectDo, ProjectReply
from taskqueue.protocol.values import Schedule

COLUMNS: Final = [
    Column("p50", "p50", "ms", 2),
    Column("p99", "p99", "ms", 2),
    Column("most", "most", "ms", 1),
    Column("ready", "tasks that became ready", "tasks/s"),
]
BATCH: Final = 1000
BODY_BYTES: Final = 300
PUSHED_A_SECOND: Final = 10_000
"""Rate above that of any machine: no task is due before the last one has been pushed."""
ALONE_SECONDS: Final = 6.0
LOAD_RATE: Final = 4_000.0
LOAD_SECONDS_MOST: Final = 30
OVERDUE: Final = "overdue"
"""Name of the project with the many tasks."""
DELAYED, DUE = "while they wait", "while they become ready"
PAUSE_SECONDS: Final = 0.002
LOOK_EVERY: Final = 8
"""Tasks between two checks whether any of the others is still delayed."""


def main() -> None:
    """Run all rounds."""
    options = parse()
    stay_on("1")
    measured = builds(options)
    report = Report("overdue", f"A task beside {options.tasks:,} overdue ones", "python -m benchmarks.overdue", COLUMNS,
                    [ratio for build in measured for ratio in ratios(build)])  # fmt: skip
    cases = [(build, is_loaded) for build in measured for is_loaded in (False, True)]
    for _, (build, is_loaded) in alternate(options.rounds, cases):
        measure(report, build, options.tasks, is_loaded=is_loaded)
    report.finish(options)


def parse() -> argparse.Namespace:
    made = parser(__doc__, rounds=3)
    made.add_argument("--tasks", type=int, default=1_000_000, help="number of overdue tasks; default: 1,000,000")
    add_options(made)
    options: argparse.Namespace = made.parse_args()
    return options


def named(build: Build, beside: str, *, is_loaded: bool) -> str:
    """Name a row."""
    return build.of(f"{beside}{', beside a load' if is_loaded else ''}")


def ratios(build: Build) -> list[Ratio]:
    """Return the ratios of a build."""
    return [
        Ratio(
            build.of(f"p99, {DUE} : {DELAYED}{', beside a load' if is_loaded else ''}"),
            "p99",
            named(build, DUE, is_loaded=is_loaded),
            named(build, DELAYED, is_loaded=is_loaded),
            "≤ 2" if is_loaded else "",
        )
        for is_loaded in (False, True)
    ]


def measure(report: Report, build: Build, tasks: int, *, is_loaded: bool) -> None:
    """Measure one round with one build."""
    with ours.serve(ours.setting("commit", build), "0") as daemon:
        due_at = time.time() + tasks / PUSHED_A_SECOND + ALONE_SECONDS
        with Traffic(daemon.url, BODY_BYTES) as traffic, OurLine(daemon.url) as line:
            make_project(daemon.url)
            outcomes = traffic.push(range(tasks), BATCH, lambda number: Schedule(exetime=due_at), OVERDUE)
            expect(outcomes, "new", tasks)
            time.sleep(max(0.0, due_at - ALONE_SECONDS - time.time()))
            with load(daemon.url, is_loaded=is_loaded):
                before = until(line, lambda: time.time() > due_at - 0.1)
                report.add(named(build, DELAYED, is_loaded=is_loaded), figures(before))
                time.sleep(max(0.0, due_at - time.time()))
                began_at = time.time()
                ways = until(line, lambda: not daemon.status().counts.delayed)
                rate = tasks / (time.time() - began_at)
                report.add(named(build, DUE, is_loaded=is_loaded), figures(ways) | {"ready": rate})


def make_project(address: str) -> None:
    """Make the project with the many tasks."""
    with Peer(address, "bench") as peer:
        peer.send(ProjectDo(session=peer.session, n=peer.number(), project=OVERDUE, action="start"))
        assert isinstance(peer.receive(), ProjectReply)


@contextmanager
def load(address: str, *, is_loaded: bool) -> Iterator[None]:
    """Run another producer and fetcher until the end of the block."""
    work = Load(int(LOAD_RATE * LOAD_SECONDS_MOST), 16, BODY_BYTES)
    words = [str(number) for number in work]
    started = []
    if is_loaded:
        started.append(start_module("benchmarks.peers.role", ["ours", "fetch", address, *words], "1"))
        started.append(start_module("benchmarks.paced", ["ours", address, str(LOAD_RATE), *words], "1"))
        time.sleep(1.5)  # until it has begun
    yield
    for process in started:
        stop(process)


def until(line: OurLine, is_over: Callable[[], bool]) -> list[float]:
    """Push tasks one by one until a condition holds; return their times in milliseconds."""
    ways: list[float] = []
    for number in count(1):
        ways.append(1000 * line.hand_over())
        if not number % LOOK_EVERY and is_over():
            break
        time.sleep(PAUSE_SECONDS)
    return ways


def figures(ways: list[float]) -> dict[str, float]:
    """Compute the figures of these times."""
    ways.sort()
    return {"p50": quantile(ways, 0.50), "p99": quantile(ways, 0.99), "most": ways[-1]}


if __name__ == "__main__":
    main()
