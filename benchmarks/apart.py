"""Queue all tasks first, then run them all: the rate of both, beside Graphile Worker, beanstalkd and Redis.

    python -m benchmarks.apart                        100,000 tasks in batches of 256, 3 rounds of each
    python -m benchmarks.apart --compiled VENV

A backlog looks like this, and Graphile Worker publishes its figures in this form
(https://worker.graphile.org/docs/performance): some 202,000 jobs queued a second by one ``add_jobs``, and 183,000 run
by four workers of 24 at once, on a machine of many cores. Servers, clients and the check of the ledger are those of
``benchmarks.lifecycle``; the fetcher starts when the producer has ended.
"""

from __future__ import annotations

from typing import Final

from benchmarks import processes
from benchmarks.builds import add_options, builds
from benchmarks.contest import Contender, Load, Pin, check, start_role
from benchmarks.harness import Column, Plot, Ratio, Report, alternate, parser
from benchmarks.lifecycle import BEANSTALKD, GRAPHILE, GRAPHILE_LOOSE, PEERS, REDIS_EQUAL, REDIS_EQUAL_SYNCED
from benchmarks.peers import ours

SHOWN: Final = (GRAPHILE, GRAPHILE_LOOSE, REDIS_EQUAL_SYNCED, REDIS_EQUAL, BEANSTALKD)
BATCH: Final = 256
COLUMNS: Final = [
    Column("queued", "queued", "tasks/s"),
    Column("run", "run", "tasks/s"),
    Column("queued_cpu", "CPU of the server, queued", "µs a task", 1),
    Column("run_cpu", "run", "µs a task", 1),
]


def main() -> None:
    """Run the rounds, print each, and the table."""
    made = parser(__doc__)
    made.add_argument("--tasks", type=int, default=100_000, help="tasks in each round")
    made.add_argument("--body", type=int, default=300, help="bytes of a task's body")
    made.add_argument("--pin", default="0:1", help="cores of the server, colon, of the clients; empty: any")
    add_options(made)
    options = made.parse_args()
    mine = [
        Contender(build.of(f"taskqueue, {durability}"), "ours", ours.setting(durability, build))
        for durability in ("commit", "interval")
        for build in builds(options)
    ]
    report = Report(
        "apart",
        "Tasks a second that are queued, and that are run when all are queued",
        "python -m benchmarks.apart",
        COLUMNS,
        ratios=[
            Ratio(f"{what}, {label} against {GRAPHILE}", column, f"taskqueue, {label}", GRAPHILE)
            for label in [each.label.removeprefix("taskqueue, ") for each in mine if "commit" in each.label]
            for what, column in (("queued", "queued"), ("run", "run"))
        ],
        plot=Plot(columns=("queued", "run")),
    )
    load, pin = Load(options.tasks, BATCH, options.body), Pin.of(options.pin)
    for number, contender in alternate(options.rounds, [*mine, *(peer for peer in PEERS if peer.label in SHOWN)]):
        if why := contender.module.unavailable():
            report.missing(contender.label, why)
            continue
        figures = measured(contender, load, pin)
        rates = f"{figures['queued']:>9,.0f} queued/s {figures['run']:>9,.0f} run/s"
        print(f"round {number}  {contender.label:<36} {rates}", flush=True)
        report.add(contender.label, figures)
    report.finish(options)


def measured(contender: Contender, load: Load, pin: Pin) -> dict[str, float]:
    """Measure one round.

    Raises:
        SystemExit: the ledger is wrong.
    """
    with contender.module.serve(contender.setting, pin.server) as server:
        told, spent = [], [server.cpu_seconds()]
        for role in ("produce", "fetch"):
            told.append(processes.printed(start_role(contender, role, server, load, pin)))
            spent.append(server.cpu_seconds())
        pushed, done = told
        check(contender, server, load, pushed, done)
    return {
        "queued": load.tasks / (pushed["ended_at"] - pushed["began_at"]),
        "run": load.tasks / (done["ended_at"] - done["began_at"]),
        "queued_cpu": 1e6 * (spent[1] - spent[0]) / load.tasks,
        "run_cpu": 1e6 * (spent[2] - spent[1]) / load.tasks,
    }


if __name__ == "__main__":
    main()
