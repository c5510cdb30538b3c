"""Cost of slots: in the core, in the whole daemon and at rest, and beside the queue of Scrapy.

    python -m benchmarks.slots                                  all five, with a million slots
    python -m benchmarks.slots --only core --slots 1k,100k
    python -m benchmarks.slots --only daemon --slots 1k,10m     10 million: half an hour

* *core*: tasks selected and reported in a second of CPU, with a store in memory. Each slot that may go waits half a
  second after each task, and a turn is a second, so in each turn as many slots come to wait as go on; the others have
  a day to wait. Pushes are not counted.
* *daemon*: a real one, over loopback, ``durability = "interval"``. Its tasks are pushed, one a host or ``--tasks`` in
  all if these are more, it is started again, and some tasks are done. Each host may be asked every 10 ms. With a task
  a host, each finished task means one more slot to read from the store: the worst case.
* *memory*: of the largest number of slots, with ten tasks each, under the default bounds.
* *idle*: as many slots that all wait for hours.
* *scrapy*: a ``pop()`` of ``DownloaderAwarePriorityQueue``, its queue in memory, beside a whole turn of ours, with
  the report of the task and the writes.

All this was measured once, most of it on a busy machine: trust the CPU of a task, which counts no waiting, more than
rates, and neither to more than a third. The core, 5,000 tasks, the median of three times:

    without slots                              10 a turn: 43,816/s   256 a turn: 90,479/s
    1,000 slots, 100 % may go                  10 a turn: 30,384/s   256 a turn: 54,924/s
    100,000 slots, 100 % may go                10 a turn: 32,612/s   256 a turn: 60,035/s
    1,000,000 slots, 100 % may go              10 a turn: 27,879/s   256 a turn: 45,835/s
    1,000 slots, 1 % may go                    10 a turn: 36,938/s   only ten may go
    100,000 slots, 1 % may go                  10 a turn: 30,688/s   256 a turn: 47,904/s
    1,000,000 slots, 1 % may go                10 a turn: 30,348/s   256 a turn: 57,630/s
    1,000,000 slots, default bounds of memory  10 a turn: 29,741/s   256 a turn: 55,599/s

A million slots have 0.82 to 0.92 of the rate of a thousand (goal: 0.5). With ten million hosts, a task of each
(``--only daemon --slots 10m --measured 60000``, beside none in the same run): pushed 31,416/s (none: 120,426/s) at
31.8 µs of CPU (8.3), first task 0.40 s after a start (0.32 s), run 11,209/s (63,978/s) at 88.8 µs (15.5), 136 MB of
memory (132), 478 bytes of disk a task.
"""

from __future__ import annotations

import argparse
import gc
from typing import Final

from benchmarks.harness import Column, Goal, Plot, Ratio, Report, alternate, parser
from benchmarks.idle import COLUMNS as IDLE
from benchmarks.processes import stay_on
from benchmarks.slots import scrapy_queue
from benchmarks.slots.core import Core
from benchmarks.slots.whole import LONG, Whole

COMMAND: Final = "python -m benchmarks.slots"
PARTS: Final = ("core", "daemon", "memory", "idle", "scrapy")
UNITS: Final = {"k": 1000, "m": 1_000_000}
BATCH: Final = 256
FEW: Final = 10
"""Tasks of a small turn: all that may go of 1,000 slots, if one in a hundred may."""
SCRAPY_SECONDS_A_DOMAIN: Final = 3e-7
WITHOUT: Final = "without slots"
"""Row that all others are compared with."""

CORE: Final = [Column("few", f"{FEW} a turn", "/s"), Column("batch", f"{BATCH} a turn", "/s")]
BATCHES: Final = {"few": FEW, "batch": BATCH}
DAEMON: Final = [
    Column("push", "pushed", "/s"),
    Column("push_cpu", "CPU of a push", "µs", 1),
    Column("start", "start to first task", "s", 2),
    Column("run", "run", "/s"),
    Column("run_cpu", "CPU of a run", "µs", 1),
    Column("rss", "memory", "MB"),
    Column("peak", "at its peak", "MB"),
    Column("disk", "disk a task", "B"),
]
SCRAPY: Final = [Column("pops", "pops", "/s"), Column("cpu", "CPU of a pop", "µs", 1)]
SHARES: Final = (1.0, 0.01)


def main() -> None:
    """Run the parts."""
    options = parse()
    stay_on("1")
    for part, run in {"core": core, "daemon": daemon, "memory": memory, "idle": idle, "scrapy": scrapy}.items():
        if part in options.only:
            run(options).finish(options)


def parse() -> argparse.Namespace:
    made = parser(__doc__, rounds=1)
    made.add_argument("--only", type=lambda text: text.split(","), default=PARTS, help=",".join(PARTS))
    made.add_argument("--slots", type=sizes, default=[1000, 100_000, 1_000_000], help="slots, such as 1k,100k,1m")
    made.add_argument("--tasks", type=int, default=1_000_000, help="tasks in the daemon, if there are fewer slots")
    made.add_argument("--measured", type=int, default=100_000, help="tasks selected and reported")
    made.add_argument("--seconds", type=int, default=60, help="length of the idle measurement")
    made.add_argument("--durability", choices=("commit", "interval", "none"), default="interval")
    return made.parse_args()


def sizes(text: str) -> list[int]:
    """Parse numbers of slots."""
    return [int(each.rstrip("km")) * UNITS.get(each[-1], 1) for each in text.split(",")]


def row(slots: int, share: float) -> str:
    """Label the row of slots of which this share may go."""
    return f"{slots:,} slots, {share:.0%} may go"


def fits(slots: int, share: float, batch: int) -> bool:
    """Whether enough slots may go for turns of this size."""
    return slots * share >= batch


def core(options: argparse.Namespace) -> Report:
    """Measure tasks a second of the core."""
    least, most = min(options.slots), max(options.slots)
    ratios = [
        Ratio(f"{most:,} slots against {least:,}, {share:.0%} may go, {column.label}", column.key, *ends, goal="≥ 0.5")
        for share in SHARES
        for column in CORE
        for ends in [(row(most, share), row(least, share))]
        if fits(least, share, BATCHES[column.key])
    ]
    ratios.append(Ratio(f"{least:,} slots against none, {BATCH} a turn", "batch", row(least, 1), WITHOUT))
    report = Report("slots-core", "The core with slots", f"{COMMAND} --only core", CORE, ratios)
    cases = [(WITHOUT, 0, 1.0, False)]
    cases += [(row(slots, share), slots, share, False) for share in SHARES for slots in options.slots]
    cases.append((f"{row(most, 1)}, bounds of memory as by default", most, 1.0, True))
    for _, (label, slots, share, bounded) in alternate(options.rounds, cases):
        made = Core(slots, share, bounded=bounded, beside=0 if slots else 10 * BATCH)
        gc.collect()
        gc.freeze()
        for key, batch in BATCHES.items():
            if not slots or fits(slots, share, batch):
                report.add(label, {key: made.rate(options.measured // 4, batch)})
        del made
        gc.unfreeze()
    return report


def daemon(options: argparse.Namespace) -> Report:
    """Measure pushes, starts and runs of a daemon."""
    labels = {0: WITHOUT} | {hosts: f"{hosts:,} hosts" for hosts in options.slots}
    ratios = [
        Ratio(f"CPU of a {what}, {labels[hosts]} against none", f"{what}_cpu", labels[hosts], WITHOUT)
        for what in ("push", "run")
        for hosts in options.slots
    ]
    command = f"{COMMAND} --only daemon"
    report = Report("slots", "A daemon with slots", command, DAEMON, ratios, plot=Plot(columns=("push_cpu", "run_cpu")))
    for _, hosts in alternate(options.rounds, list(labels)):
        with Whole(hosts, options.durability) as made:
            figures = made.push(max(hosts, options.tasks)) | made.start() | made.run(options.measured)
            report.add(labels[hosts], figures | made.memory())
    return report


def memory(options: argparse.Namespace) -> Report:
    """Measure memory of very many slots with ten tasks each, under the default bounds."""
    hosts = max(options.slots)
    label = f"{hosts:,} hosts × 10 tasks"
    columns = [column for column in DAEMON if column.key != "start"]
    report = Report("slots-memory", "Memory of slots", f"{COMMAND} --only memory", columns)
    for _ in range(options.rounds):
        with Whole(hosts, options.durability) as made:
            figures = made.push(10 * hosts) | made.run(options.measured)
            report.add(label, figures | made.memory())
    return report


def idle(options: argparse.Namespace) -> Report:
    """Measure an idle daemon whose slots all wait for hours."""
    hosts = max(options.slots)
    label = f"{hosts:,} slots wait"
    goal = Goal("CPU of a daemon that has nothing to do", "share", label, "< 0.1 %")
    report = Report("slots-idle", "Idle with slots that wait", f"{COMMAND} --only idle", IDLE, goals=[goal])
    with Whole(hosts, options.durability, LONG) as made:
        made.push(2 * hosts)
        made.run(hosts)
        for _ in range(options.rounds):
            report.add(label, made.idle(options.seconds))
    return report


def scrapy(options: argparse.Namespace) -> Report:
    """Measure pops of Scrapy's queue, beside tasks selected and reported by the core, which is more work."""
    report = Report(
        "slots-scrapy", "A pop of Scrapy's queue", f"{COMMAND} --only scrapy", SCRAPY, plot=Plot(scale="log")
    )
    for _, slots in alternate(options.rounds, [10_000, 100_000]):
        made = Core(slots, 1.0)
        add_pops(report, f"taskqueue, {slots:,} slots", made.rate(options.measured // 4, BATCH))
        label = f"Scrapy, {slots:,} domains"
        if why := scrapy_queue.missing():
            report.missing(label, why)
        else:
            add_pops(report, label, scrapy_queue.rate(slots, max(20, round(1 / SCRAPY_SECONDS_A_DOMAIN / slots))))
    return report


def add_pops(report: Report, label: str, rate: float) -> None:
    """Add a row with a rate."""
    report.add(label, {"pops": rate, "cpu": 1e6 / rate})


if __name__ == "__main__":
    main()
