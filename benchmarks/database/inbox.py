"""Tasks that come through the inbox of a database while an old snapshot keeps all its dead rows.

    python -m benchmarks.database.inbox                         6 minutes, 2,000 rows a second; another
                                                                transaction is open from minute 2 to 4
    python -m benchmarks.database.inbox --minutes 3 --until 2

A row exists for a moment only: the daemon takes it and deletes it. While an older transaction is open, such as that
of a dump, the database keeps the dead row, and each look into the table passes over it, a bounded part at a time. A
line a minute: the looks, how far the daemon was behind the producer at most, and the size of the table.
"""

from __future__ import annotations

import argparse
import time
from typing import Final

import psycopg

from benchmarks.daemon import Daemon
from benchmarks.database.steady import hold_a_snapshot
from benchmarks.growing import CONFIG
from benchmarks.harness import Column, Plot, Report, parser
from benchmarks.peers.ours_postgres import SETTINGS
from benchmarks.peers.postgres_server import Postgres
from benchmarks.traffic import PROJECT

COMMAND: Final = "python -m benchmarks.database.inbox"
BATCHES: Final = 10
"""Transactions of the producer per second."""

COLUMNS: Final = [
    Column("rate", "rows taken up", "/s"),
    Column("look", "a turn's looks", "ms", 2),
    Column("behind", "waiting at most", "rows"),
    Column("size", "inbox", "MB", 1),
]
PLOT: Final = Plot("lines", x_label="minute", columns=("look", "size"))


def main() -> None:
    """Run all minutes, and print the table."""
    options = parse()
    report = Report("database-inbox", "The inbox beside an old snapshot", COMMAND, COLUMNS, plot=PLOT)
    report.note(
        f"A row is a minute. From the beginning of minute {options.snapshot} to the end of minute {options.until} "
        "another transaction was open."
    )
    with (
        Postgres([*SETTINGS, "autovacuum_naptime=15s"], "") as server,
        Daemon(CONFIG, core="", store=server.address) as daemon,
        psycopg.connect(server.address, autocommit=True) as producer,
    ):
        holder = None
        for minute in range(1, options.minutes + 1):
            if minute == options.snapshot:
                holder = hold_a_snapshot(server)
            figures = minute_of(daemon, producer, options, minute)
            size = float(server.ask("select pg_total_relation_size('taskqueue.inbox')"))
            report.add(str(minute), figures | {"size": size / 1e6})
            if holder is not None and minute == options.until:
                holder.communicate()
            print(f"minute {minute}: {report.result.rows[-1].values}", flush=True)
    report.finish(options)


def parse() -> argparse.Namespace:
    made = parser(__doc__, rounds=1)
    made.add_argument("--minutes", type=int, default=6)
    made.add_argument("--rate", type=int, default=2000, help="rows per second")
    made.add_argument("--snapshot", type=int, default=2, help="minute in which a transaction begins")
    made.add_argument("--until", type=int, default=4, help="last minute of the transaction")
    made.add_argument("--body", type=int, default=300, help="bytes of a task's body")
    return made.parse_args()


def minute_of(
    daemon: Daemon, producer: psycopg.Connection[tuple[object, ...]], load: argparse.Namespace, minute: int
) -> dict[str, float]:
    """Insert rows at a steady rate, each with a notification; return how the daemon kept up."""
    insert = (
        "insert into taskqueue.inbox (project, url, body) select %s, 'http://site/' || %s || '/' || number, "
        "to_json(%s::text) from generate_series(1, %s) as number"
    )
    rate, body = load.rate, load.body
    before, began_at, inserted, behind = daemon.status(), time.monotonic(), 0, 0
    while (passed := time.monotonic() - began_at) < 60:
        if inserted < rate * passed:
            with producer.transaction():
                values = [PROJECT, f"{minute}.{inserted}", "x" * body, rate // BATCHES]
                producer.execute(insert, values)
                producer.execute("notify taskqueue_inbox")
            inserted += rate // BATCHES
        else:
            time.sleep(0.01)
            behind = max(behind, inserted - (daemon.status().totals.new - before.totals.new))
    after = daemon.status()
    taken = after.totals.new - before.totals.new
    looks = after.shell["find_seconds"] - before.shell["find_seconds"]
    return {
        "rate": taken / passed,
        "look": 1000 * looks / (after.shell["writes"] - before.shell["writes"]),
        "behind": behind,
    }


if __name__ == "__main__":
    main()
