"""Figures of attacks in files of tests/attack/results, and as the tables of docs/why/results.md.

before.json   before the daemon was hardened
after.json    now, without keys
keys.json     now, with keys
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field

from tests.attack.measure import Figures
from tests.attack.rows import ROWS
from tests.attack.waits import Waits

RESULTS: Final = Path(__file__).parent / "results"
PAGE: Final = Path(__file__).parents[2] / "docs" / "why" / "results.md"
PLACES: Final = ("attacks", "attacks-with-keys")
"""Names of the tables."""


class Results(Struct):
    """Rows by name, each with its last figures."""

    commit: str = ""
    day: str = ""
    machine: str = ""
    rows: dict[str, Figures] = field(default_factory=dict)


def load(path: Path) -> Results:
    """Read a file; empty if it doesn't exist."""
    return msgspec.json.decode(path.read_bytes(), type=Results, strict=False) if path.exists() else Results()


def save(path: Path, results: Results, python: str) -> None:
    """Write results, with place and time of the measurement."""
    results.commit = _commit(python)
    results.day = date.today().isoformat()
    results.machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, Linux {platform.release()}"
    results.rows = {name: results.rows[name] for name in ROWS if name in results.rows}
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")


def _commit(python: str) -> str:
    """Return the commit of the sources around this Python's environment; empty if unknown."""
    asked = ["git", "-C", str(Path(python).parent), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return done.stdout.strip()


HEAD: Final = [
    "attack", "peak, MiB", "left, MiB", "p50, ms", "slowest, ms", "p50 afterwards, ms", "SIGTERM, s",
    "does not hold",
]  # fmt: skip


def line(name: str, figures: Figures) -> str:
    """Format a row for a terminal."""
    cells = [_memory(figures.memory_peak), _memory(figures.memory_left)]
    cells += [_ms(figures.during.p50_ms), _ms(figures.during.max_ms), _ms(figures.after.p50_ms)]
    cells += [_seconds(figures), ", ".join(figures.broken()) or "all holds"]
    note = f"  ({figures.note})" if figures.note else ""
    note += f"  {figures.least_free:,.0f} MiB free at least" if figures.least_free is not None else ""
    return f"{name:24}" + "".join(f"{cell:>10}" for cell in cells[:-1]) + f"  {cells[-1]}{note}"


def table(results: Mapping[str, Figures], before: Mapping[str, Figures]) -> list[str]:
    """Format results in Markdown, with earlier ones beside them."""
    lines = [f"| {' | '.join(HEAD)} |", "|---|" + "---:|" * (len(HEAD) - 2) + "---|"]
    for name in ROWS:
        if name in results or name in before:
            new, old = results.get(name), before.get(name)
            cells = [f"{one} → {other}" for one, other in zip(_cells(old), _cells(new), strict=True)]
            what = (new or old or _never()).what
            lines.append(f"| {what} | {' | '.join(cells)} |")
    return lines


HEAD_WITH_KEYS: Final = ["attack", "what came of it", "p50 before, ms", *HEAD[1:]]


def table_with_keys(results: Mapping[str, Figures]) -> list[str]:
    """Format results of a daemon with keys in Markdown."""
    lines = [f"| {' | '.join(HEAD_WITH_KEYS)} |", "|---|---|" + "---:|" * (len(HEAD_WITH_KEYS) - 3) + "---|"]
    for figures in results.values():
        cells = [figures.what, figures.note, _ms(figures.before.p50_ms), *_cells(figures)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _cells(figures: Figures | None) -> list[str]:
    if figures is None:
        return ["–"] * (len(HEAD) - 1)
    waits: tuple[Waits, Waits] = (figures.during, figures.after)
    cells = [_memory(figures.memory_peak), "–" if figures.ended else _memory(figures.memory_left)]
    cells += [_ms(waits[0].p50_ms), _ms(waits[0].max_ms), "–" if figures.ended else _ms(waits[1].p50_ms)]
    return [*cells, _seconds(figures), ", ".join(figures.broken()) or "none"]


def _memory(mebibytes: float) -> str:
    return f"{mebibytes:,.0f}"


def _ms(milliseconds: float) -> str:
    return f"{milliseconds:,.1f}" if milliseconds < 10 else f"{milliseconds:,.0f}"


def _seconds(figures: Figures) -> str:
    if figures.ended:
        return "–"
    return "never" if figures.stop_seconds is None else f"{figures.stop_seconds:.1f}"


def _never() -> Figures:
    raise AssertionError("a row was measured before or now")


def report() -> None:
    """Write the tables of the files into the page."""
    PAGE.write_text(rewritten(PAGE.read_text(), *saved()))


def saved() -> tuple[Results, Results, Results]:
    """Read the three files of tests/attack/results."""
    return load(RESULTS / "before.json"), load(RESULTS / "after.json"), load(RESULTS / "keys.json")


def rewritten(page: str, old: Results, new: Results, keyed: Results) -> str:
    """Return the page with the tables of these results.

    Raises:
        SystemExit: the page has no place for one.
    """
    tables = (table(new.rows, old.rows), table_with_keys(keyed.rows))
    for place, sources, lines in zip(PLACES, ((old, new), (keyed,)), tables, strict=True):
        head = [f"`make attack`, {each.day}, {each.commit}: {each.machine}." for each in sources if each.rows]
        page = _filled(page, place, ["", *head, "", *lines, "", ""])
    return page


def _filled(page: str, place: str, lines: list[str]) -> str:
    block = re.compile(rf"(<!-- table: {place} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not block.search(page):
        raise SystemExit(f"{PAGE}: there is no place for the table; write: <!-- table: {place} --> and <!-- end -->")
    inside = "\n".join(lines)
    return block.sub(lambda match: f"{match[1]}{inside}{match[2]}", page)
