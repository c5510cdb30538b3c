"""Chaos for a real daemon, and the ledger of what was acknowledged: ``make chaos``.

    .venv/bin/python -m tests.chaos                        every trouble, some minutes; 1 if anything was lost
    .venv/bin/python -m tests.chaos "power cuts"           one of them
    .venv/bin/python -m tests.chaos --seed 7 --rounds 50   other moments, more of them
    .venv/bin/python -m tests.chaos --write                and put the table into docs/why/results.md

The seed chooses the moments and the faults; the machine's own timing differs, so no run repeats another.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.chaos.play import Played, play
from tests.chaos.troubles import TROUBLES
from tests.faults.shim import build
from tests.integration.conftest import ROOT

ROUNDS: Final = 20
TASKS: Final = 2000

DOCUMENT: Final = ROOT / "docs" / "why" / "results.md"
TABLE: Final = re.compile(r"(?<=<!-- table: chaos -->\n).*?(?=<!-- end -->)", re.DOTALL)

HEAD: Final = (
    "| | rounds | store failures | acknowledged | done | lost | dispatched twice |",
    "|---|---|---|---|---|---|---|",
)


def main() -> int:
    """Play the requested troubles; return the process's exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("troubles", nargs="*", help=f"some of {', '.join(map(repr, TROUBLES))}; default: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds of each trouble (%(default)s)")
    parser.add_argument("--tasks", type=int, default=TASKS, help="tasks in each round (%(default)s)")
    parser.add_argument("--write", action="store_true", help="write the table into docs/why/results.md")
    told = parser.parse_args()
    print("\n".join(HEAD), flush=True)
    rows, is_well = [], True
    with TemporaryDirectory(prefix="chaos-") as folder:
        library = build(Path(folder))
        for name in told.troubles or TROUBLES:
            scene = Path(folder, name)
            scene.mkdir()
            played = play(name, library, scene, told.seed, told.rounds, told.tasks)
            rows.append(_row(name, told.rounds, played))
            print(rows[-1], *played.problems, sep="\n", flush=True)
            is_well = is_well and not played.ledger.lost and not played.problems
    if told.write:
        DOCUMENT.write_text(TABLE.sub("".join(f"{line}\n" for line in (*HEAD, *rows)), DOCUMENT.read_text()))
    return 0 if is_well else 1


def _row(name: str, rounds: int, played: Played) -> str:
    ledger = played.ledger
    figures = (rounds, played.failures, len(ledger.pushed), len(ledger.done), ledger.lost, ledger.twice)
    return f"| {name} | " + " | ".join(f"{each:,}" for each in figures) + " |"


if __name__ == "__main__":
    sys.exit(main())
