"""Full lifecycles a second: push, select, done, with everything on disk; beside beanstalkd, Redis and Graphile Worker.

    python -m benchmarks.lifecycle                           200,000 tasks in batches of 1 to 1,024, 3 rounds
    python -m benchmarks.lifecycle --batch 1,16,256 --save   a sixteenth, a quarter, all of the tasks in these
    python -m benchmarks.lifecycle --only taskqueue --durability commit --rounds 1 --batch 256 --tasks 150000
    python -m benchmarks.lifecycle --compiled VENV --before VENV             other builds beside this one

Each server has one core; its producer and its fetcher share the other. Taskids are random, bodies have 300
incompressible bytes, and everything is made before the clock starts. Producer and fetcher write eight batches ahead
of the answers, so the batch size is also the depth. A server that answers each job by itself is at its best at
another depth than one that works in batches, so each contender does all rounds at every depth, and ratios compare
their best depths, by the median. Contenders take turns. Slow ones do a part of the tasks. At the end of each round
the ledger is checked: each task was accepted, taken and done once, and the server agrees (``benchmarks.contest``).

* *taskqueue* looks up each taskid, keeps pace and shares of its projects, and remembers a finished task for ever.
* *beanstalkd* with its binlog: ``put``, ``reserve``, ``delete``, with its default sync and with one each (``-f 0``).
* *Redis, bare*, with its append-only file: a hash, a sorted set, a script that leases N tasks, a script that removes
  N. It looks nothing up and remembers nothing.
* *Redis, equal work*: three Lua scripts that do about what the daemon does (``benchmarks.peers.redis_scheduler``):
  known ids are dropped, delays, priority, a token bucket, leases with tokens, counts, repeated requests. It has no
  history, no counters by the second and no shares between projects, and all of it is in memory.
* *Graphile Worker* 0.17 on PostgreSQL 15, with the options of its published figures: ``add_jobs`` of N, eight calls
  at once, a local queue, 24 jobs at once. It has no duplicate check without a job key and no pace. Bodies go as
  base64. PostgreSQL has a core, Node's processes share the other.

Steps of one task in the loop's thread: *hear* receives, decodes and checks; *find* looks up the taskid; *step*
decides; *keep* packs and writes the records, more than half of it in RocksDB: five changes for a task that is
dispatched in the turn that made it, eight for one that waits; *reply* encodes and sends. The busier the daemon, the
more tasks share a turn and a sync.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from statistics import median
from typing import Final

from benchmarks.builds import BEFORE, COMPILED, HERE, Build, add_options, builds
from benchmarks.contest import WINDOW, Contender, Load, Pin, Round, run
from benchmarks.harness import Column, Goal, Plot, Ratio, Report, Result, alternate, parser
from benchmarks.peers import ours

DURABILITIES: Final = ("commit", "interval", "none")
BEANSTALKD: Final = "beanstalkd, sync every 50 ms"
BEANSTALKD_SYNCED: Final = "beanstalkd, sync each"
REDIS: Final = "Redis, bare, sync every second"
REDIS_EQUAL: Final = "Redis, equal work, sync every second"
REDIS_EQUAL_SYNCED: Final = "Redis, equal work, sync each"
GRAPHILE: Final = "Graphile Worker, synced"
GRAPHILE_LOOSE: Final = "Graphile Worker, not synced"

PEERS: Final = (
    Contender(BEANSTALKD, "beanstalkd", "50"),
    Contender(BEANSTALKD_SYNCED, "beanstalkd", "0", part=0.05),
    Contender(REDIS, "redis", "everysec"),
    Contender(REDIS_EQUAL, "redis_scheduler", "everysec"),
    Contender(REDIS_EQUAL_SYNCED, "redis_scheduler", "always"),
    Contender(GRAPHILE, "graphile", "on", part=0.5),
    Contender(GRAPHILE_LOOSE, "graphile", "off", part=0.5),
)

AGAINST: Final = (
    ("interval", BEANSTALKD, "≥ 1.0"),
    ("commit", BEANSTALKD_SYNCED, "≥ 25"),
    ("commit", REDIS_EQUAL_SYNCED, "≥ 1.7"),
    ("interval", REDIS_EQUAL, "≥ 1.2"),
    ("interval", REDIS, ""),
    ("commit", GRAPHILE, "≥ 1.5"),
    ("interval", GRAPHILE_LOOSE, ""),
)
"""Opponents: our durability, the peer, and the goal."""

STEPS: Final = ("hear", "find", "step", "keep", "reply")
"""Parts of a turn, in the loop's own thread (``server.meters``)."""

LEAST_TASKS: Final = 500
USUAL: Final = 256
"""Batch size in which builds of taskqueue are compared."""

ROW: Final = "taskqueue, commit"

COMMAND: Final = "python -m benchmarks.lifecycle"


def main() -> None:
    """Run the rounds, print each, and the tables."""
    options = parse()
    pin = Pin.of(options.pin)
    batches = sorted({int(batch) for batch in options.batch.split(",")})
    others = builds(options)
    reports = Reports(batches, others)
    for number, contender in alternate(options.rounds, reports.available(chosen(options, others))):
        for batch in batches:
            load = Load(tasks_of(options.tasks * contender.part, batch), batch, options.body)
            reports.add(number, contender, load, run(contender, load, pin))
    print(f"\n{options.tasks:,} tasks a round, bodies of {options.body} bytes; {pin}")
    reports.finish(options)


def parse() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--tasks", type=int, default=200_000, help="tasks a round; fewer in batches below 256")
    made.add_argument("--batch", default="1,16,64,256,1024", help="tasks per message, both ways (comma-separated)")
    made.add_argument("--body", type=int, default=300, help="bytes of a task's body")
    made.add_argument("--only", help="beginnings of the names of contenders, separated by |")
    made.add_argument("--durability", choices=DURABILITIES, help="only this durability of taskqueue")
    made.add_argument("--pin", default="0:1", help="cores of the server, colon, of the clients; empty: any")
    add_options(made)
    options: argparse.Namespace = made.parse_args()
    return options


def chosen(options: argparse.Namespace, others: list[Build]) -> list[Contender]:
    """Choose the contenders to measure; ``none`` only if it is named."""
    durabilities = [options.durability] if options.durability else ["commit", "interval"]
    mine = [
        Contender(build.of(f"taskqueue, {durability}"), "ours", ours.setting(durability, build))
        for durability in durabilities
        for build in others
    ]
    beginnings = tuple((options.only or "").split("|"))
    return [contender for contender in (*mine, *PEERS) if contender.label.startswith(beginnings)]


def tasks_of(tasks: float, batch: int) -> int:
    """Reduce the tasks of small batches, which are slow and precise enough with fewer."""
    part = 1.0 if batch >= 256 else 1 / 4 if batch >= 16 else 1 / 16
    return max(LEAST_TASKS, batch, int(tasks * part))


class Reports:
    """Rates of all contenders, their costs, and the time of each step of our tasks."""

    def __init__(self, batches: list[int], others: list[Build]) -> None:
        self._batches = batches
        self._usual = USUAL if USUAL in batches else max(batches)
        self._others = others
        rates = [Column(f"rate_{batch}", f"{batch} × {WINDOW} ahead", "lifecycles/s") for batch in batches]
        best = [Column("rate", "at its best depth", "lifecycles/s"), Column("ahead", "which is", "tasks ahead")]
        self.rates = Report(
            "lifecycle",
            "Lifecycles a second",
            COMMAND,
            rates + best,
            ratios=[*self._ratios(), *self._ratios_of_builds()],
            plot=Plot(columns=("rate",)),
        )
        commit, interval = (self._fastest.of(f"taskqueue, {durability}") for durability in ("commit", "interval"))
        self.costs = Report(
            "lifecycle-cpu",
            "CPU of the server a lifecycle",
            COMMAND,
            [Column(f"cpu_{batch}", f"{batch} × {WINDOW} ahead", "µs", 1) for batch in batches],
            ratios=[
                Ratio(f"{build.of('commit')}, against interpreted", self._cpu, build.of(ROW), ROW, "≤ 0.55")
                for build in others
                if build.label == COMPILED
            ],
            goals=[Goal(row, self._cpu, row, "≤ 20") for row in (commit, interval)],
            plot=Plot(columns=(self._cpu,)),
        )
        self.steps = Report(
            "lifecycle-steps",
            f"Where the time of one task goes, batches of {self._usual}",
            COMMAND,
            [Column("us", "in the loop's thread", "µs a task", 2), Column("share", "share", "%")],
            plot=Plot(columns=("us",)),
        )

    @property
    def _cpu(self) -> str:
        return f"cpu_{self._usual}"

    @property
    def _fastest(self) -> Build:
        """Compiled build, if it is measured; the one compared with others."""
        return next((build for build in self._others if build.label == COMPILED), HERE)

    def _ratios(self) -> list[Ratio]:
        ratios = []
        for durability, peer, goal in AGAINST:
            row = self._fastest.of(f"taskqueue, {durability}")
            ratios.append(Ratio(f"{row.removeprefix('taskqueue, ')}, against {peer}", "rate", row, peer, goal))
        return ratios

    def _ratios_of_builds(self) -> list[Ratio]:
        rate, before = f"rate_{self._usual}", Build(BEFORE).of(ROW)
        goals = {HERE.label: "≥ 1.0", COMPILED: "≥ 1.7"}
        return [
            Ratio(f"{build.of('commit')}, against before, {self._usual} × {WINDOW}", rate, build.of(ROW), before, goal)
            for build in self._others
            if (goal := goals.get(build.label)) and any(other.label == BEFORE for other in self._others)
        ]

    def available(self, contenders: list[Contender]) -> list[Contender]:
        """Return the contenders that can be measured, and report the others as missing."""
        there = []
        for contender in contenders:
            if why := contender.module.unavailable():
                for report in (self.rates, self.costs):
                    report.missing(contender.label, why)
            else:
                there.append(contender)
        return there

    def add(self, number: int, contender: Contender, load: Load, took: Round) -> None:
        """Add a round of one size."""
        print(
            f"round {number}  {contender.label:<36} batch {load.batch:>4} {took.rate:>9,.0f} lifecycles/s"
            f"  CPU {took.cpu_us:6.1f} µs{_turns(took)}",
            flush=True,
        )
        self.rates.add(contender.label, {f"rate_{load.batch}": took.rate})
        self.costs.add(contender.label, {f"cpu_{load.batch}": took.cpu_us})
        if load.batch == self._usual and contender.peer == "ours":
            self._add_steps(contender.label.removeprefix("taskqueue, "), load.tasks, took.meters)

    def _add_steps(self, row: str, tasks: int, meters: dict[str, float]) -> None:
        spent = {step: 1e6 * meters[f"{step}_seconds"] / tasks for step in STEPS}
        whole = sum(spent.values())
        for step, us in spent.items():
            self.steps.add(f"{step}, {row}", {"us": us, "share": 100 * us / whole})

    def finish(self, options: argparse.Namespace) -> None:
        """Find the best depths, print and save."""
        add_best(self.rates.result, self._batches)
        self.rates.finish(options)
        self.costs.finish(options)
        if self.steps.result.rows:
            self.steps.finish(options)


def add_best(result: Result, batches: Sequence[int]) -> None:
    """Copy the rates of the depth with a row's highest median into its column of the best one."""
    for row in result.rows:
        if measured := [batch for batch in batches if row.values.get(f"rate_{batch}")]:
            best = max(measured, key=lambda batch: median(row.values[f"rate_{batch}"]))
            row.values["rate"] = list(row.values[f"rate_{best}"])
            row.values["ahead"] = [best * WINDOW]


def _turns(took: Round) -> str:
    return f"  {took.meters['turns']:,.0f} turns, {took.meters['syncs']:,.0f} syncs" if took.meters else ""


if __name__ == "__main__":
    main()
