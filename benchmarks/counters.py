"""What the counters of many projects cost: memory, a turn, an attempt, a page of statistics, a save, a start.

    python -m benchmarks.counters                     10,000 projects, about a minute
    python -m benchmarks.counters --projects 100000   that many

All projects are busy: every turn of theirs has new, selected, successful, failed and retried tasks, and their rings
have gone round. Memory is measured twice in a process of its own: what Python allocated (tracemalloc) and what the
operating system gave (RSS); "unused" is a project without events. Times are medians of REPEATS rounds over all
projects, the loop around the call included; a record's size is that of MessagePack.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import statistics
import time
import tracemalloc
from collections.abc import Callable
from typing import Final

from msgspec import structs
from msgspec.msgpack import Decoder, encode

from taskqueue.core.admin.project_requests import windows_of
from taskqueue.core.parts.counters_record import CountersRecord
from taskqueue.core.parts.counts import EventTotals
from taskqueue.core.parts.windows import PERIOD_SECONDS, Counters
from taskqueue.protocol.fields import Wall
from taskqueue.protocol.replies import StatsReply
from taskqueue.protocol.views import ProjectStats, Totals

NOW: Final = Wall(1_700_000_005.0)
DAY: Final = 86_400
REPEATS: Final = 9
PAGE: Final = 100
SECONDS: Final = [0.02 * 1.3**n for n in range(20)]
"""Of attempts: 20 ms to 3 s."""

Figures = dict[str, float]

# ------------------------------------------------------------------------------------------------ made-up projects


class Made:
    """A project: its totals and its counters."""

    __slots__ = ("counters", "totals")

    def __init__(self) -> None:
        self.totals = EventTotals()
        self.counters = Counters(self.totals)

    def turn(self, at: float, count: int) -> None:
        """``count`` tasks go through it; every tenth fails."""
        totals = self.totals
        totals.new += count
        totals.selected += count
        totals.success += count - count // 10
        totals.failed += count // 20
        totals.retried += count // 10 - count // 20
        self.counters.note(structs.astuple(totals), Wall(at))


def aged(project: Made, a_second: int) -> float:
    """Live for a day and a bit; returns the time at its end."""
    for turn in range(DAY // PERIOD_SECONDS + 100):
        at = NOW + turn * PERIOD_SECONDS
        project.turn(at, a_second * PERIOD_SECONDS + turn % 9)
        for seconds in SECONDS[: a_second * PERIOD_SECONDS]:
            project.counters.took(seconds * (1 + turn % 5), Wall(at))
    return at


# ------------------------------------------------------------------------------------------------ memory


def rss_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def used() -> Counters:
    counters, totals = Counters(EventTotals()), EventTotals(new=1)
    counters.took(1.0, NOW)
    counters.note(structs.astuple(totals), NOW)
    return counters


def unused() -> Counters:
    return Counters(EventTotals())


def memory(make: Callable[[], Counters], projects: int, measure: Callable[[], int]) -> int:
    """Bytes that ``projects`` counters take, by ``measure``."""
    make()
    gc.collect()
    before = measure()
    made = [make() for _ in range(projects)]
    taken = measure() - before
    del made
    return taken


def traced(make: Callable[[], Counters], projects: int) -> int:
    tracemalloc.start()
    try:
        return memory(make, projects, lambda: tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()


def resident(make: Callable[[], Counters], projects: int) -> int:
    return memory(make, projects, rss_bytes)


def in_its_own_process(
    measure: Callable[[Callable[[], Counters], int], int], make: Callable[[], Counters], projects: int
) -> int:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(measure, (make, projects))


def memory_figures(projects: int) -> Figures:
    figures: Figures = {}
    for name, make in (("used", used), ("unused", unused)):
        for kind, measure in (("tracemalloc", traced), ("RSS", resident)):
            taken = in_its_own_process(measure, make, projects)
            figures[f"bytes a project, {name}, {kind}"] = taken / projects
            figures[f"MB in all, {name}, {kind}"] = taken / 1e6
    return figures


# ------------------------------------------------------------------------------------------------ time


def median_us(act: Callable[[int], int]) -> float:
    """Microseconds each; ``act`` is given the number of the round, and returns how often it did it."""
    rounds = []
    for n in range(REPEATS):
        start = time.perf_counter()
        count = act(n)
        rounds.append((time.perf_counter() - start) / count * 1e6)
    return statistics.median(rounds)


def time_figures(projects: int) -> Figures:
    made = [Made() for _ in range(projects)]
    for project in made:
        project.turn(NOW, 10)

    def turns(at: float) -> int:
        for project in made:
            project.totals.new += 1
            project.counters.note(structs.astuple(project.totals), Wall(at))
        return projects

    def attempts(at: float) -> int:
        for project in made:
            project.counters.took(1.7, Wall(at))
        return projects

    def page(at: float) -> int:
        rows = [
            ProjectStats("a-project", Totals(*structs.astuple(p.totals)), windows_of(p.counters, Wall(at)))
            for p in made[:PAGE]
        ]
        encode(StatsReply(n=1, projects=rows, more=True))
        return 1

    def failing(at: float) -> int:
        for project in made:
            project.counters.failing(Wall(at))
        return projects

    return {
        "us a turn, same period": median_us(lambda n: turns(NOW)),
        "us a turn, the next period": median_us(lambda n: turns(NOW + (n + 1) * PERIOD_SECONDS)),
        "us a turn, an hour later": median_us(lambda n: turns(NOW + (n + 1) * 3600)),
        "us a turn, a year later": median_us(lambda n: turns(NOW + (n + 1) * 365 * DAY)),
        "us an attempt": median_us(lambda n: attempts(NOW + REPEATS * 365 * DAY)),
        "us failing()": median_us(lambda n: failing(NOW + REPEATS * 365 * DAY)),
        f"ms a page of {PAGE}, encoded": median_us(lambda n: page(NOW + REPEATS * 365 * DAY)) / 1000,
    }


def record_figures(projects: int) -> Figures:
    figures: Figures = {}
    for a_second in (1, 10, 100):
        project = Made()
        at = aged(project, a_second)
        record, totals = project.counters.saved(), project.totals
        figures[f"bytes a record, {a_second} tasks/s"] = len(encode(record))
        figures[f"us saved(), {a_second} tasks/s"] = median_us(lambda n, p=project: repeated(p.counters.saved))  # type: ignore[misc]
        load = lambda r=record, t=totals, at=at: Counters.load(r, t, at).took(1.0, at)  # noqa: E731
        name = f"us load() and the first took(), {a_second} tasks/s"
        figures[name] = median_us(lambda n, load=load: repeated(load))  # type: ignore[misc]
        figures[f"ms a start, {projects:,} projects, {a_second} tasks/s"] = start_ms(
            encode(record), totals, at, projects
        )
        figures[f"ms the first page of {PAGE} after it, {a_second} tasks/s"] = first_page_ms(record, totals, at)
    return figures


def stats_of(counters: Counters, totals: EventTotals, at: float) -> ProjectStats:
    """What a page says of one project."""
    return ProjectStats("a-project", Totals(*structs.astuple(totals)), windows_of(counters, Wall(at)))


def start_ms(record: bytes, totals: EventTotals, at: float, projects: int) -> float:
    """Decode and load one record for each project."""
    records = [bytes(bytearray(record)) for _ in range(projects)]
    decode = Decoder(CountersRecord).decode

    def start(_: int) -> int:
        loaded = [Counters.load(decode(record), totals, Wall(at)) for record in records]
        return len(loaded) // projects

    return median_us(start) / 1000


def first_page_ms(record: CountersRecord, totals: EventTotals, at: float) -> float:
    """Like ``page``, of projects in which nothing has been counted since they were loaded."""

    def page(_: int) -> int:
        loaded = [Counters.load(record, totals, Wall(at)) for _ in range(PAGE)]
        rows = [
            ProjectStats("a-project", Totals(*structs.astuple(totals)), windows_of(counters, Wall(at)))
            for counters in loaded
        ]
        encode(StatsReply(n=1, projects=rows, more=True))
        return 1

    return median_us(page) / 1000


def repeated(act: Callable[[], object]) -> int:
    for _ in range(200):
        act()
    return 200


# ------------------------------------------------------------------------------------------------ printing


def print_table(projects: int, figures: Figures) -> None:
    print(f"\n{projects:,} projects; {os.cpu_count()} cores, load {os.getloadavg()[1]:.1f}\n")
    print("| | |")
    print("|---|---:|")
    for figure, value in figures.items():
        print(f"| {figure} | {shown(value)} |", flush=True)


def shown(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--projects", type=int, default=10_000, help="how many; default: 10,000")
    projects = parser.parse_args().projects
    print_table(projects, memory_figures(projects) | time_figures(projects) | record_figures(projects))


if __name__ == "__main__":
    main()
