"""Audit of a crawl's politeness, by the hosts' own logs: ``make politeness``.

.venv/bin/python -m tests.politeness                         200 hosts for a minute; 1 if a host complains
.venv/bin/python -m tests.politeness --part 0.2 --seconds 8  fewer of them, and sooner
.venv/bin/python -m tests.politeness --write                 and put the table into docs/howto/politeness.md
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from tests.integration.conftest import ROOT
from tests.politeness.audit import Audited, audit
from tests.politeness.hosts import KINDS, Kind

SECONDS: Final = 60.0
EXAMPLES: Final = 5
"""Printed violations of a kind."""

DOCUMENT: Final = ROOT / "docs" / "howto" / "politeness.md"
TABLE: Final = re.compile(r"(?<=<!-- table: politeness -->\n).*?(?=<!-- end -->)", re.DOTALL)

HEAD: Final = (
    "| hosts | | requests | closest two arrivals | half of them within | longest transit | violations |",
    "|---|---:|---:|---:|---:|---:|---:|",
)


def main() -> int:
    """Run the audit; return the process's exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.politeness")
    parser.add_argument("--part", type=float, default=1.0, help="share of the hosts of each kind (%(default)s)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="seconds of work for each host (%(default)s)")
    parser.add_argument("--write", action="store_true", help="write the table into docs/howto/politeness.md")
    told = parser.parse_args()
    with TemporaryDirectory(prefix="politeness-") as folder:
        audited = audit(Path(folder), told.part, told.seconds)
    table = [*HEAD, *(_row(audited, kind) for kind in KINDS)]
    complaints = list(_complaints(audited))
    print(*table, *complaints, f"{audited.seconds:.1f} s", sep="\n")
    if told.write:
        DOCUMENT.write_text(TABLE.sub("".join(f"{line}\n" for line in table), DOCUMENT.read_text()))
    return 1 if complaints else 0


def _row(audited: Audited, kind: Kind) -> str:
    hosts = [host for host in audited.hosts if host.kind is kind]
    visits = [audited.visits.get(host.address, []) for host in hosts]
    apart = [after.arrived_at - before.arrived_at for each in visits for before, after in pairwise(each)]
    transit = max((visit.transit for each in visits for visit in each), default=0.0)
    figures = (
        f"{len(hosts)}",
        f"{sum(map(len, visits)):,}",
        f"{min(apart):.3f} s" if apart else "–",
        f"{median(apart):.3f} s" if apart else "–",
        f"{1000 * transit:.0f} ms",
        f"{sum(len(audited.violations(host)) for host in hosts)}",
    )
    return f"| {kind.name} | " + " | ".join(figures) + " |"


def _complaints(audited: Audited) -> Iterator[str]:
    yield from audited.problems
    for kind in KINDS:
        found = [each for host in audited.hosts if host.kind is kind for each in audited.violations(host)]
        yield from found[:EXAMPLES]


if __name__ == "__main__":
    sys.exit(main())
