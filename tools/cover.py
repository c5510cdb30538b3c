"""Print the coverage of the last test run, and exit with status 1 if it is below its bound.

Reads `.coverage`, which `make cover` leaves. Lines are easily covered; branches tell more: each condition true at one
time and false at another.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from coverage import Coverage

LEAST_PERCENT = {"taskqueue": 85.0, "taskqueue/core": 96.0, "taskqueue/protocol": 96.0}
"""Least branch coverage of these folders in percent. Child processes of tests are not counted."""


def figures(folder: str) -> tuple[float, float]:
    """Return a folder's coverage of lines and of branches, in percent."""
    measured = Coverage()
    measured.load()
    with TemporaryDirectory() as place:
        report = Path(place, "report.json")
        measured.json_report(outfile=str(report), include=[f"{folder}/*"])
        totals = json.loads(report.read_text())["totals"]
    lines = totals["covered_lines"] / totals["num_statements"]
    return 100 * lines, 100 * totals["covered_branches"] / totals["num_branches"]


def main() -> int:
    """Print a line for each folder; return 1 if one is below its bound."""
    short = 0
    for folder, least in LEAST_PERCENT.items():
        lines, branches = figures(folder)
        print(f"{folder:20} {lines:5.1f} % of lines, {branches:5.1f} % of branches, {least:.0f} % are required")
        short += branches < least
    return min(short, 1)


if __name__ == "__main__":
    sys.exit(main())
