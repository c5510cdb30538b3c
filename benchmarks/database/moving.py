"""Moving a crawl between a folder and a database by export and import, both ways, and back.

    python -m benchmarks.database.moving                      a million tasks, one round
    python -m benchmarks.database.moving --tasks 20k

    made up ──► folder ──► database ──► folder      each is exported; the three exports must be the same bytes

Half of the tasks are ready, with bodies; the others are finished, so that only what is known of them moves.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.harness import Column, Report, count_of, parser
from benchmarks.peers.ours_postgres import SETTINGS
from benchmarks.peers.postgres_server import Postgres

COMMAND: Final = "python -m benchmarks.database.moving"
PROJECTS: Final = 10
ENDED_AT: Final = 1_700_000_000.0
COLUMNS: Final = [
    Column("seconds", "took", "s", 1),
    Column("rate", "tasks", "/s"),
    Column("size", "of the export", "MB"),
]


def main() -> None:
    """Move there and back, and print the table."""
    options = parse()
    count = count_of(options.tasks)
    report = Report("database-moving", "Moving to a database and back", COMMAND, COLUMNS)
    with TemporaryDirectory(prefix="moving-") as temporary, Postgres(SETTINGS, "") as server:
        folder = Path(temporary)
        made_up, first, second, third = (folder / f"{name}.jsonl" for name in ("made-up", "first", "second", "third"))
        with made_up.open("w") as file:
            file.writelines(f"{json.dumps(line)}\n" for line in lines(count, "x" * options.body))
        for row, step, store, file_name in (
            ("made up, into a folder", "import", str(folder / "one"), made_up),
            ("out of the folder", "export", str(folder / "one"), first),
            ("into the database", "import", server.address, first),
            ("out of the database", "export", server.address, second),
            ("into another folder", "import", str(folder / "two"), second),
            ("out of that one", "export", str(folder / "two"), third),
        ):
            took = run(step, store, file_name)
            report.add(row, {"seconds": took, "rate": count / took, "size": file_name.stat().st_size / 1e6})
            print(f"{row}: {took:.1f} s", flush=True)
        for store in (str(folder / "one"), server.address, str(folder / "two")):
            print(taskqueue("check", store), end="")
        if not first.read_bytes() == second.read_bytes() == third.read_bytes():
            raise SystemExit("the exports differ")
        print(f"the three exports of {count:,} tasks are the same, octet for octet")
    report.finish(options)


def parse() -> argparse.Namespace:
    made = parser(__doc__, rounds=1)
    made.add_argument("--tasks", default="1m", help="number of tasks to move")
    made.add_argument("--body", type=int, default=300, help="bytes of a task's body")
    return made.parse_args()


def lines(count: int, body: str) -> Iterator[dict[str, object]]:
    """Yield an export of ``count`` tasks."""
    yield {"taskqueue": 1, "projects": [{"name": f"p{number}"} for number in range(PROJECTS)]}
    for number in range(count):
        url = f"http://site{number % 97}/{number}"
        task: dict[str, object] = {"project": f"p{number % PROJECTS}", "taskid": f"t{number:09}", "url": url}
        is_over = number // PROJECTS % 2
        rest: dict[str, object] = (
            {"state": "success", "ended_at": ENDED_AT + number} if is_over else {"state": "ready", "body": body}
        )
        yield task | rest
    yield {"tasks": count}


def run(step: str, store: str, file: Path) -> float:
    """Export to the file, or import from it; return the seconds that it took."""
    began_at = time.monotonic()
    taskqueue(*(("export", "-o", str(file)) if step == "export" else ("import", str(file))), "--store", store)
    return time.monotonic() - began_at


def taskqueue(*arguments: str) -> str:
    """Run ``taskqueue store``; return its output."""
    command = [sys.executable, "-m", "taskqueue", "store", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main()
