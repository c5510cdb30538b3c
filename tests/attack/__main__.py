"""Attack a real daemon in every way that it must bear, and report the effects on it and on a polite client.

    .venv/bin/python -m tests.attack                        every row, about fifteen minutes
    .venv/bin/python -m tests.attack unread wishes          only these rows
    .venv/bin/python -m tests.attack --list                 list the rows
    .venv/bin/python -m tests.attack --keys                 on a daemon with keys, of which attackers have none
    .venv/bin/python -m tests.attack --json after.json      write figures to a file, row by row
    .venv/bin/python -m tests.attack --compare before.json  compare with the rows of that file
    .venv/bin/python -m tests.attack --report               write tests/attack/results into docs/why/results.md

Needs some GB of memory. A daemon that takes more than --kill-above is killed, and the table says so.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from pathlib import Path

from tests.attack.measure import Conditions, measure
from tests.attack.results import Results, line, load, report, save
from tests.attack.rows import MANY, ROWS, Row

COLUMNS = ("peak MiB", "left MiB", "p50 ms", "max ms", "p50 after", "SIGTERM s")


def main() -> int:
    """Run the attacks; return 1 if a bound does not hold."""
    options = _options()
    if options.list:
        print("\n".join(f"{row.name:24} {row.what}" for row in ROWS.values()))
        return 0
    if options.report:
        report()
        return 0
    return _measure(options)


def _measure(options: Namespace) -> int:
    rows = [row for row in ROWS.values() if _is_meant(row, options)]
    under = Conditions(options.python, options.seconds, options.kill_above << 30, options.scale, options.keys)
    earlier = load(options.compare).rows if options.compare else {}
    print(f"{'':24}" + "".join(f"{column:>10}" for column in COLUMNS), flush=True)
    failed = 0
    for row in rows:
        figures = measure(row, under)
        failed += bool(figures.broken())
        if row.name in earlier:
            print(line(f"{row.name}, before", earlier[row.name]))
        print(line(row.name, figures), flush=True)
        if options.json:
            results: Results = load(options.json)
            results.rows[row.name] = figures
            save(options.json, results, options.python)
    print(f"{failed} of {len(rows)} rows do not hold")
    return 1 if failed else 0


def _is_meant(row: Row, options: Namespace) -> bool:
    if row.needs_keys and not options.keys:
        return False
    return row.connections == (options.connections or row.connections) and (not options.row or row.name in options.row)


def _options() -> Namespace:
    made = ArgumentParser(
        prog="python -m tests.attack", description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    made.add_argument("row", nargs="*", choices=[*ROWS, []], metavar="ROW", help="attacks to run; default: all")
    made.add_argument("--list", action="store_true", help="print the rows")
    made.add_argument("--seconds", type=float, default=8.0, help="length of attacks limited by time")
    made.add_argument("--scale", type=float, default=1.0, help="share of the usual requests, tasks and bytes")
    made.add_argument("--connections", type=int, choices=(1, MANY), help="only the rows with this many connections")
    made.add_argument("--kill-above", type=int, default=6, metavar="GIB", help="memory at which the daemon is killed")
    made.add_argument("--python", default=sys.executable, help="interpreter of the attacked taskqueue")
    made.add_argument("--keys", action="store_true", help="attack a daemon with keys; attackers have none")
    made.add_argument("--json", type=Path, metavar="FILE", help="file for the figures of these rows")
    made.add_argument("--compare", type=Path, metavar="FILE", help="file of figures to compare with")
    made.add_argument("--report", action="store_true", help="write the tables of docs/why/results.md")
    return made.parse_args()


if __name__ == "__main__":
    sys.exit(main())
