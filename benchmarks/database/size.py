"""A store in PostgreSQL that has grown: known tasks looked up, rate, start.

    python -m benchmarks.database.size                        1 and 10 million known tasks, 3 rounds
    python -m benchmarks.database.size --levels 100k

The same as ``benchmarks.growth``, with a database: lifecycles are done in the large store and, in turns within each
round, in an empty one that is a second database of the same server.
"""

from __future__ import annotations

import argparse
from typing import Final

from benchmarks.growing import Growing
from benchmarks.growth import GOAL_LEVEL, label
from benchmarks.harness import Column, Goal, Report, count_of, parser
from benchmarks.peers.ours_postgres import SETTINGS
from benchmarks.peers.postgres_server import Postgres

COMMAND: Final = "python -m benchmarks.database.size"
KNOWN_LEVEL: Final = 1_000_000
COLUMNS: Final = [
    Column("rate", "lifecycles", "/s"),
    Column("share", "of an empty store's", "%"),
    Column("lookups", "known tasks looked up", "/s"),
    Column("find", "which take", "µs", 1),
    Column("rss", "memory of the daemon", "MB"),
    Column("disk", "disk of the database a task", "B"),
    Column("clean", "start", "s", 2),
    Column("killed", "start after kill -9", "s", 2),
]


def main() -> None:
    """Measure both levels, and print the table."""
    options = parse()
    levels = sorted(count_of(level) for level in options.levels.split(","))
    known, top = label(min(KNOWN_LEVEL, max(levels))), label(min(GOAL_LEVEL, max(levels)))
    goals = [
        Goal(f"known tasks looked up, of {known}", "lookups", known, "≥ 50,000"),
        Goal(f"rate at {top}, of that of an empty store", "share", top, "≥ 70 %"),
        Goal(f"start with {top}", "clean", top, "≤ 2 s"),
    ]
    report = Report("database-size", "A database that has grown", COMMAND, COLUMNS, goals=goals)
    with Postgres(SETTINGS, "") as server, Growing(options.body, store=server.address) as growing:
        for level in levels:
            growing.do_to(level)
            measure(report, label(level), growing, server, options)
    report.finish(options)


def parse() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--levels", default="1m,10m", help="numbers of known tasks to measure at")
    made.add_argument("--tasks", default="50k", help="lifecycles, and look-ups, in a round")
    made.add_argument("--body", type=int, default=300, help="bytes of a task's body")
    return made.parse_args()


def measure(report: Report, row: str, growing: Growing, server: Postgres, options: argparse.Namespace) -> None:
    """Measure one level."""
    count = count_of(options.tasks)
    size = float(server.ask("select pg_database_size('postgres')"))
    report.add(row, {"rss": growing.daemon.rss_bytes() / 1e6, "disk": size / growing.size})
    for chance in range(options.rounds + 1):
        found = growing.lookups(count, chance=chance)
        if chance:  # the first round warms up
            report.add(row, {"lookups": found["lookups"], "find": found["find"]})
    server.ask("create database empty")
    with Growing(options.body, store=f"{server.address.removesuffix('/postgres')}/empty") as empty:
        for number in range(options.rounds):
            rates = {}
            for one in (empty, growing) if number % 2 else (growing, empty):
                rates[one] = one.lifecycles(count)["rate"]
            report.add(row, {"rate": rates[growing], "share": 100 * rates[growing] / rates[empty]})
    server.ask("drop database empty with (force)")
    growing.push_to(growing.size + 1000)
    for _ in range(options.rounds):
        report.add(row, {"clean": growing.start_clean()})
    for _ in range(options.rounds):
        report.add(row, {"killed": growing.start_killed(count)})
    growing.do_waiting()
    report.print()


if __name__ == "__main__":
    main()
