"""Steady load on a store in PostgreSQL: whether tables that are always rewritten grow, and the cost of an old snapshot.

    python -m benchmarks.database.steady                               20 minutes, 3,000 lifecycles a second
    python -m benchmarks.database.steady --minutes 6 --snapshot 3      another transaction is open in minute 3

Tasks are done as fast as they are pushed, so that the queues are short, while everything in them is new each second.
A line a minute: turns, and the size of the tables that a turn rewrites. These must not grow; ``kv_ids`` and what is
kept of finished tasks (*all else*) do, and so does ``kv_outcomes``, because this load has a new session for each
batch and a session is remembered for an hour. A transaction that stays open, such as that of ``pg_dump``, keeps the
database from removing dead rows: meanwhile the tables grow ten times as large, a turn takes as long as before, and a
minute later the space is used again.
"""

from __future__ import annotations

import argparse
import subprocess
import time
from typing import Final

from benchmarks.growing import Growing
from benchmarks.harness import Column, Plot, Report, parser
from benchmarks.peers.ours_postgres import SETTINGS
from benchmarks.peers.postgres_server import Postgres

COMMAND: Final = "python -m benchmarks.database.steady"
REWRITTEN: Final = ("kv_ready", "kv_leases", "kv_projects", "kv_outcomes", "kv_counters", "schedulers", "barriers")
BATCH: Final = 500
STEADY: Final = ("database-steady", "Steady load on a database")
SNAPSHOT: Final = ("database-snapshot", "Steady load on a database beside an old snapshot")
"""Name and title of the report beside an old snapshot."""

COLUMNS: Final = [
    Column("rate", "lifecycles", "/s"),
    Column("turn", "a turn's look-up and write", "ms", 2),
    *(Column(name, name, "MB", 1) for name in REWRITTEN),
    Column("rest", "all else", "MB"),
]

PLOT: Final = Plot("lines", x_label="minute", columns=("turn", "kv_ready", "kv_leases", "kv_outcomes", "schedulers"))


def main() -> None:
    """Run all minutes, and print the table."""
    options = parse()
    report = Report(*(SNAPSHOT if options.snapshot else STEADY), COMMAND, COLUMNS, plot=PLOT)
    report.note("A row is a minute.")
    if options.snapshot:
        report.note(f"In minute {options.snapshot} another transaction was open.")
    with Postgres([*SETTINGS, "autovacuum_naptime=15s"], "") as server, Growing(300, store=server.address) as growing:
        for minute in range(1, options.minutes + 1):
            holder = hold_a_snapshot(server) if minute == options.snapshot else None
            row = str(minute)
            report.add(row, minute_of(growing, options.rate) | sizes(server))
            if holder is not None:
                holder.communicate()
            print(f"minute {row}: {report.result.rows[-1].values}", flush=True)
    report.finish(options)


def parse() -> argparse.Namespace:
    made = parser(__doc__, rounds=1)
    made.add_argument("--minutes", type=int, default=20)
    made.add_argument("--rate", type=int, default=3000, help="lifecycles per second")
    made.add_argument("--snapshot", type=int, default=0, help="minute in which a transaction is open; 0: none")
    return made.parse_args()


def minute_of(growing: Growing, rate: int) -> dict[str, float]:
    """Load the daemon for a minute; return lifecycles done, and the length of a turn."""
    before, began_at, done = growing.meters(), time.monotonic(), 0
    while (passed := time.monotonic() - began_at) < 60:
        if done < rate * passed:
            growing.traffic.lifecycles(growing.next(BATCH), BATCH)
            done += BATCH
        else:
            time.sleep(0.001)
    meters = growing.meters()
    spent = sum(meters[name] - before[name] for name in ("find_seconds", "keep_seconds"))
    return {"rate": done / passed, "turn": 1000 * spent / (meters["writes"] - before["writes"])}


def sizes(server: Postgres) -> dict[str, float]:
    """Return the sizes of the tables, with their indexes."""
    said = server.ask("select relname, pg_total_relation_size(relid) from pg_stat_user_tables")
    found = {name: int(size) / 1e6 for name, size in (line.split("|") for line in said.splitlines())}
    rest = sum(size for name, size in found.items() if name not in REWRITTEN)
    return {name: found[name] for name in REWRITTEN} | {"rest": rest}


def hold_a_snapshot(server: Postgres) -> subprocess.Popen[str]:
    """Begin a transaction with a snapshot, and keep it open until the client's input ends."""
    holder = subprocess.Popen(
        ["psql", "-q", server.address], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, bufsize=1
    )
    assert holder.stdin is not None
    holder.stdin.write("begin isolation level repeatable read; select 1;\n")
    return holder


if __name__ == "__main__":
    main()
