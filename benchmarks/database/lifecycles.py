"""Full lifecycles a second with the store in PostgreSQL, beside RocksDB, Graphile Worker and Procrastinate.

    python -m benchmarks.database.lifecycles                  100,000 tasks in batches of 1, 16 and 256, 5 rounds
    python -m benchmarks.database.lifecycles --compiled VENV  a compiled daemon in the same rounds
    python -m benchmarks.database.lifecycles --only 'PostgreSQL, commit'  with and without synced hand-outs

A daemon with a database is two processes that work in turns, so nothing is pinned: daemon, database, producer and
fetcher share the machine's cores. How they are driven, and how the ledger is checked: ``benchmarks.contest``.

*Procrastinate* pushes by ``batch_defer_async``, N a call and eight calls at once; eight workers take one job at a
time, each with a commit of its own, and delete it when it is done. It drops no duplicates without a
``queueing_lock``, keeps no pace, and remembers nothing of a deleted job.
"""

from __future__ import annotations

import argparse
from typing import Final

from benchmarks.builds import HERE, Build, add_options, builds_of_today
from benchmarks.contest import Contender, Load, Pin, Round, run
from benchmarks.harness import Column, Ratio, Report, alternate, parser
from benchmarks.lifecycle import GRAPHILE, tasks_of
from benchmarks.peers import ours

COMMAND: Final = "python -m benchmarks.database.lifecycles"
BATCHES: Final = (1, 16, 256)
USUAL: Final = 256
ENGINES: Final = {"RocksDB": "ours", "PostgreSQL": "ours_postgres"}
DURABILITIES: Final = ("commit", "interval")
SYNCED: Final = "commit, hand-outs synced"
PROCRASTINATE: Final = "Procrastinate, synced"


def main() -> None:
    """Run the rounds, print each, and the table."""
    options = parse()
    mine = builds_of_today(options)
    contenders = {
        build.of(f"{engine}, {durability}"): Contender("", peer, ours.setting(durability, build))
        for engine, peer in ENGINES.items()
        for durability in DURABILITIES
        for build in mine
    }
    contenders |= {
        build.of(f"{engine}, {SYNCED}"): Contender("", peer, ours.setting("commit", build, is_synced=True))
        for engine, peer in ENGINES.items()
        for build in mine
    }
    contenders[GRAPHILE] = Contender(GRAPHILE, "graphile", "on", part=0.5)
    contenders[PROCRASTINATE] = Contender(PROCRASTINATE, "procrastinate", "on", part=0.02)
    contenders = {label: each for label, each in contenders.items() if label.startswith(options.only)}
    report = Report("database-lifecycles", "Lifecycles with a database", COMMAND, columns(), ratios(mine))
    for label in [label for label, contender in contenders.items() if contender.module.unavailable()]:
        report.missing(label, contenders.pop(label).module.unavailable())
    for _, label in alternate(options.rounds, list(contenders)):
        contender = contenders[label]
        for batch in BATCHES:
            load = Load(tasks_of(options.tasks * contender.part, batch), batch, options.body)
            figures = figures_of(batch, load, run(contender, load, Pin("", "")))
            print(f"{label:<24} {batch:>4} {figures}", flush=True)
            report.add(label, figures)
    report.finish(options)


def parse() -> argparse.Namespace:
    made = parser(__doc__, rounds=5)
    made.add_argument("--tasks", type=int, default=100_000, help="tasks a round; fewer in batches below 256")
    made.add_argument("--only", default="", help="beginning of the names of contenders")
    made.add_argument("--body", type=int, default=300, help="bytes of a task's body")
    add_options(made)
    return made.parse_args()


def columns() -> list[Column]:
    """Return the columns of the table."""
    return [
        *(Column(f"rate_{batch}", f"batches of {batch}", "lifecycles/s") for batch in BATCHES),
        Column("daemon", "CPU of the daemon", "µs", 1),
        Column("server", "CPU of the database", "µs", 1),
        Column("wal", "log of the database", "B"),
    ]


def ratios(mine: list[Build]) -> list[Ratio]:
    """Return each build's ratios: database to folder, and to other queues on the same server."""
    found = [
        Ratio(
            build.of(f"PostgreSQL : RocksDB, {durability}"),
            f"rate_{USUAL}",
            build.of(f"PostgreSQL, {durability}"),
            build.of(f"RocksDB, {durability}"),
            "≥ 0.6" if (durability, build) == ("commit", HERE) else "",
        )
        for build in mine
        for durability in DURABILITIES
    ]
    synced = [
        Ratio(
            build.of(f"{engine}, hand-outs synced : not"),
            f"rate_{USUAL}",
            build.of(f"{engine}, {SYNCED}"),
            build.of(f"{engine}, commit"),
        )
        for build in mine
        for engine in ENGINES
    ]
    others = [
        Ratio(f"{row} : {other.partition(',')[0]}", f"rate_{USUAL}", row, other)
        for other in (GRAPHILE, PROCRASTINATE)
        for row in (build.of("PostgreSQL, commit") for build in mine)
    ]
    return [*found, *synced, *others]


def figures_of(batch: int, load: Load, took: Round) -> dict[str, float]:
    """Return figures of a round; the cost of a lifecycle is that of large batches."""
    figures = {f"rate_{batch}": took.rate}
    if batch != USUAL:
        return figures
    if "turns" not in took.meters:
        return figures | {"server": took.cpu_us}
    figures["daemon"] = took.cpu_us
    if "wal_bytes" in took.meters:
        figures["server"] = 1e6 * took.meters["server_seconds"] / load.tasks
        figures["wal"] = took.meters["wal_bytes"] / load.tasks
    return figures


if __name__ == "__main__":
    main()
