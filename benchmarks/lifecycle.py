"""Full lifecycles a second: push, select, done, with everything on disk; beside beanstalkd and Redis.

    python -m benchmarks.lifecycle                                200,000 tasks in batches of 256, 3 rounds of each
    python -m benchmarks.lifecycle --batch 1,16,256 --save        a sixteenth, a quarter, all of the tasks in these
    python -m benchmarks.lifecycle --only taskqueue --durability commit --rounds 1 --tasks 150000

Each server has one core, its producer and its fetcher another. How they are driven, and how the ledger is checked at
the end of every round: ``benchmarks.contest``. Contenders alternate. What waits for a sync with each command does a
twentieth of the tasks, because it would take all day.
"""

from __future__ import annotations

import argparse
from typing import Final

from benchmarks.contest import Contender, Load, Pin, Round, run
from benchmarks.harness import Column, Goal, Plot, Ratio, Report, alternate, parser

COMMIT: Final = "taskqueue, commit"
INTERVAL: Final = "taskqueue, interval"
NONE: Final = "taskqueue, none"
BEANSTALKD: Final = "beanstalkd, sync every 50 ms"
BEANSTALKD_SYNCED: Final = "beanstalkd, sync each"
REDIS: Final = "Redis, sync every second"

CONTENDERS: Final = (
    Contender(COMMIT, "ours", "commit"),
    Contender(INTERVAL, "ours", "interval"),
    Contender(NONE, "ours", "none"),
    Contender(BEANSTALKD, "beanstalkd", "50"),
    Contender(BEANSTALKD_SYNCED, "beanstalkd", "0", part=0.05),
    Contender(REDIS, "redis", "everysec"),
)

STEPS: Final = ("hear", "find", "step", "keep", "reply")
"""Parts of a turn, in the loop's own thread; ``server.meters`` says what they are."""

LEAST_TASKS: Final = 500

COMMAND: Final = "python -m benchmarks.lifecycle --batch 1,16,256"


def main() -> None:
    """Run the rounds, print each, and the tables."""
    options = parse()
    pin = Pin.of(options.pin)
    batches = [int(batch) for batch in options.batch.split(",")]
    reports = Reports(batches)
    for number, contender in alternate(options.rounds, reports.available(chosen(options))):
        for batch in batches:
            load = Load(tasks_of(options.tasks * contender.part, batch), batch, options.body)
            reports.add(number, contender, load, run(contender, load, pin))
    print(f"\n{options.tasks:,} tasks a round, bodies of {options.body} bytes; {pin}")
    reports.finish(options)


def parse() -> argparse.Namespace:
    """The command line."""
    made = parser(__doc__)
    made.add_argument("--tasks", type=int, default=200_000, help="in batches of 256 and more; fewer in smaller ones")
    made.add_argument("--batch", default="256", help="tasks a message, both ways; several with commas")
    made.add_argument("--body", type=int, default=300, help="bytes")
    made.add_argument("--only", help="contenders whose name begins so")
    made.add_argument("--durability", choices=("commit", "interval", "none"), help="only this one of ours")
    made.add_argument("--pin", default="0:1", help="cores of the server : of producer and fetcher; empty: nowhere")
    options: argparse.Namespace = made.parse_args()
    return options


def chosen(options: argparse.Namespace) -> list[Contender]:
    """Those that are to be measured; ``none`` only if it is named."""
    ours = [options.durability] if options.durability else ["commit", "interval"]
    named = [contender for contender in CONTENDERS if contender.label.startswith(options.only or "")]
    return [contender for contender in named if contender.peer != "ours" or contender.setting in ours]


def tasks_of(tasks: float, batch: int) -> int:
    """Small batches are slow: fewer of them say as much."""
    part = 1.0 if batch >= 256 else 1 / 4 if batch >= 16 else 1 / 16
    return max(LEAST_TASKS, batch, int(tasks * part))


class Reports:
    """The rates of all, and where the time of one of our tasks goes."""

    def __init__(self, batches: list[int]) -> None:
        self._largest = max(batches)
        rates = [Column(f"rate_{batch}", f"batch {batch}", "lifecycles/s") for batch in batches]
        cpus = [Column(f"cpu_{batch}", f"CPU, batch {batch}", "µs", 1) for batch in batches]
        self.rates = Report(
            "lifecycle",
            "Lifecycles a second, and CPU of the server a lifecycle",
            COMMAND,
            rates + cpus,
            ratios=self._ratios(),
            goals=[
                Goal("daemon CPU a lifecycle, µs, commit", f"cpu_{self._largest}", COMMIT, "≤ 20"),
                Goal("daemon CPU a lifecycle, µs, interval", f"cpu_{self._largest}", INTERVAL, "≤ 20"),
            ],
            plot=Plot(columns=(f"rate_{self._largest}", f"cpu_{self._largest}")),
        )
        self.steps = Report(
            "lifecycle-steps",
            f"Where the time of one task goes, batches of {self._largest}",
            COMMAND,
            [Column("us", "in the loop's thread", "µs a task", 2), Column("share", "share", "%")],
            plot=Plot(columns=("us",)),
        )

    def _ratios(self) -> list[Ratio]:
        column = f"rate_{self._largest}"
        return [
            Ratio("interval against beanstalkd, sync every 50 ms", column, INTERVAL, BEANSTALKD, "≥ 1.5"),
            Ratio("commit against beanstalkd, sync each", column, COMMIT, BEANSTALKD_SYNCED, "≥ 10"),
            Ratio("interval against Redis, sync every second", column, INTERVAL, REDIS, "≥ 1.2"),
        ]

    def available(self, contenders: list[Contender]) -> list[Contender]:
        """Those that can be measured; the others are said to be missing."""
        there = []
        for contender in contenders:
            if why := contender.module.unavailable():
                self.rates.missing(contender.label, why)
            else:
                there.append(contender)
        return there

    def add(self, number: int, contender: Contender, load: Load, took: Round) -> None:
        """One round of one size."""
        print(
            f"round {number}  {contender.label:<30} batch {load.batch:>4} {took.rate:>9,.0f} lifecycles/s"
            f"  CPU {took.cpu_us:6.1f} µs{_turns(took)}",
            flush=True,
        )
        self.rates.add(contender.label, {f"rate_{load.batch}": took.rate, f"cpu_{load.batch}": took.cpu_us})
        if load.batch == self._largest and contender.peer == "ours":
            self._add_steps(contender.setting, load.tasks, took.meters)

    def _add_steps(self, durability: str, tasks: int, meters: dict[str, float]) -> None:
        spent = {step: 1e6 * meters[f"{step}_seconds"] / tasks for step in STEPS}
        whole = sum(spent.values())
        for step, us in spent.items():
            self.steps.add(f"{step}, {durability}", {"us": us, "share": 100 * us / whole})

    def finish(self, options: argparse.Namespace) -> None:
        """Print and save."""
        self.rates.finish(options)
        if self.steps.result.rows:
            self.steps.finish(options)


def _turns(took: Round) -> str:
    return f"  {took.meters['turns']:,.0f} turns, {took.meters['syncs']:,.0f} syncs" if took.meters else ""


if __name__ == "__main__":
    main()
