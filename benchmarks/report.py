"""Makes tables and plots of what was measured: benchmarks/results/*.json → docs/why/benchmarks.md and docs/plots/*.svg.

    python -m benchmarks.report

A table takes the place of what is between ``<!-- table: NAME -->`` and ``<!-- end -->``; nothing else of the page
changes, and the same results make the same page and the same plots, byte for byte. Without matplotlib there are tables
only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.harness import RESULTS, Result, about, load, most_rounds, tables

DOCS: Final = Path(__file__).parents[1] / "docs"
BLOCK: Final = re.compile(r"(<!-- table: (?P<name>[a-z0-9-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


class NoPlace(Exception):
    """The page has no markers for a result."""


def main() -> None:
    """Write the page and the plots."""
    results = [load(path) for path in sorted(RESULTS.glob("*.json"))]
    page = DOCS / "why" / "benchmarks.md"
    try:
        page.write_text(rewritten(page.read_text(), results))
    except NoPlace as error:
        raise SystemExit(f"{page}: {error}") from None
    print(f"{page.name}: {len(results)} tables")
    draw_all(results)


def rewritten(page: str, results: Sequence[Result]) -> str:
    """The page with the tables of these results; what is between other markers stays.

    Raises:
        NoPlace: it has no markers for one of them.
    """
    blocks = {result.name: "\n".join(block(result)) for result in results}
    places = {match["name"] for match in BLOCK.finditer(page)}
    if absent := [name for name in blocks if name not in places]:
        markers = ", ".join(f"<!-- table: {name} --> and <!-- end -->" for name in absent)
        raise NoPlace(f"there is no place for a table; write these lines where it belongs: {markers}")
    return BLOCK.sub(lambda match: _filled(match, blocks), page)


def block(result: Result) -> list[str]:
    """What stands between the markers."""
    head = [f"`{result.command}`: {about(result)}.", ""]
    plot = ["", f"![{result.title}](../plots/{result.name}.svg)"] if most_rounds(result) else []
    return ["", *head, *tables(result), *plot, ""]


def draw_all(results: Sequence[Result], folder: Path = DOCS / "plots") -> None:
    """A plot of each."""
    try:
        from benchmarks.plots import draw
    except ImportError as error:
        print(f"plots: not drawn: the package {error.name} is not installed")
        return
    folder.mkdir(exist_ok=True)
    for result in results:
        draw(result, folder / f"{result.name}.svg")
    print(f"plots: {len(results)}")


def _filled(match: re.Match[str], blocks: dict[str, str]) -> str:
    inside = blocks.get(match["name"])
    return match[0] if inside is None else f"{match[1]}{inside}\n{match[3]}"


if __name__ == "__main__":
    main()
