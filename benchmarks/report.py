"""Tables and plots of benchmarks/results/*.json: its README.md, the tables of two documents, docs/plots/*.svg.

    python -m benchmarks.report

README.md is made as a whole: a section a benchmark, with the docstring of its module and the tables of its results.
In docs/why/benchmarks.md a table takes the place between two markers, which also choose its columns; everything else
stays:

    <!-- table: lifecycle rate ahead -->
    <!-- end -->

In docs/reference/sizing.md two tables that ``benchmarks.sizing`` makes take their places in the same way.

The same results make the same pages and plots, byte for byte. Without matplotlib only the tables are made.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.harness import RESULTS, Result, about, load, most_rounds, tables
from benchmarks.sizing import figure_table, machine_table

ROOT: Final = Path(__file__).parents[1]
PLOTS: Final = ROOT / "docs" / "plots"
PAGE: Final = ROOT / "docs" / "why" / "benchmarks.md"
SIZING: Final = ROOT / "docs" / "reference" / "sizing.md"
README: Final = RESULTS / "README.md"
BLOCK: Final = re.compile(
    r"(?P<begin><!-- table: (?P<name>[a-z0-9-]+)(?P<columns>( [a-z0-9_]+)*) -->\n).*?(?P<end><!-- end -->)", re.DOTALL
)
EARLIER_BUILD: Final = ", before"
"""End of the labels of an earlier build's rows, which only the README shows."""

SECTIONS: Final = {
    "lifecycle": "Lifecycles",
    "apart": "Queued first, then run",
    "limit": "The limit",
    "clients": "Ordinary clients",
    "latency": "Latency",
    "lateness": "Lateness of timers",
    "overdue": "Overdue tasks of another project",
    "growth": "Growth",
    "known": "Known tasks",
    "sizing": "Sizes",
    "soak": "Soak",
    "undo": "Undo of bulk operations",
    "idle": "An idle daemon",
    "idle_clients": "Idle clients",
    "keys": "Keys",
    "slots": "Slots",
    "web": "The dashboard",
    "database.lifecycles": "A database: lifecycles",
    "database.size": "A database: growth",
    "database.steady": "A database: steady load",
    "database.inbox": "A database: the inbox",
    "database.moving": "A database: moving a crawl",
    "store": "The record layout",
}
"""Headings of the README in their order, by module of ``benchmarks``."""

HEAD: Final = """# Results of the benchmarks

Made by `python -m benchmarks.report` from the JSON files in this folder; don't edit it. The conclusions are in
[docs/why/benchmarks.md](../../docs/why/benchmarks.md)."""


class NoPlace(Exception):
    """A result has no section, or a marker names no result."""


def main() -> None:
    """Write the pages and the plots."""
    results = saved()
    try:
        README.write_text(readme(results))
        PAGE.write_text(rewritten(PAGE.read_text(), results))
        SIZING.write_text(sized(SIZING.read_text(), results))
    except NoPlace as error:
        raise SystemExit(f"benchmarks.report: {error}") from None
    print(f"{README.relative_to(ROOT)}: {len(results)} tables; {PAGE.name}, {SIZING.name}: as their markers say")
    draw_all(results)


def saved() -> list[Result]:
    """Return the results in benchmarks/results, sorted by name."""
    return [load(path) for path in sorted(RESULTS.glob("*.json"), key=lambda path: path.stem)]


# ------------------------------------------------------------------------------------------------ pages


def readme(results: Sequence[Result]) -> str:
    """Return the text of benchmarks/results/README.md.

    Raises:
        NoPlace: SECTIONS lacks the module of a result.
    """
    for result in results:
        if _module(result) not in SECTIONS:
            raise NoPlace(f"{result.name}: SECTIONS has no heading for benchmarks.{_module(result)}")
    return "\n".join([HEAD, *(line for module in SECTIONS for line in _section(module, results)), ""])


def rewritten(page: str, results: Sequence[Result]) -> str:
    """Return the page with new tables between its markers.

    Raises:
        NoPlace: a marker names a result or a column that doesn't exist.
    """
    by_name = {result.name: result for result in results}
    return BLOCK.sub(lambda match: _filled(match, by_name), page)


def sized(page: str, results: Sequence[Result]) -> str:
    """Return the page of sizes with new tables between its markers."""
    tables_of = {"figures": figure_table, "machines": machine_table}
    return BLOCK.sub(
        lambda match: "\n".join([match["begin"], *tables_of[match["name"]](results), "", match["end"]]), page
    )


def _section(module: str, results: Sequence[Result]) -> Iterator[str]:
    yield from ("", f"## {SECTIONS[module]}", "", *markdown_of(docstring_of(module)))
    for result in results:
        if _module(result) == module:
            yield from ("", f"### {result.title}", "", *block(result, "../../docs/plots"))


def _filled(match: re.Match[str], results: dict[str, Result]) -> str:
    if (result := results.get(match["name"])) is None:
        raise NoPlace(f"<!-- table: {match['name']} -->: there is no such result")
    inside = "\n".join(["", *block(excerpt(result, match["columns"].split()), "../plots"), "", ""])
    return f"{match['begin']}{inside}{match['end']}"


def excerpt(result: Result, keys: Sequence[str]) -> Result:
    """Keep these columns, in their order, without earlier builds; no keys: all columns.

    Raises:
        NoPlace: a column is unknown.
    """
    columns = {column.key: column for column in result.columns}
    if unknown := [key for key in keys if key not in columns]:
        raise NoPlace(f"{result.name} has no column {', '.join(unknown)}; it has {', '.join(columns)}")
    kept = keys or list(columns)
    rows = [row for row in result.rows if not row.label.endswith(EARLIER_BUILD)]
    labels = {row.label for row in rows}
    return msgspec.structs.replace(
        result,
        columns=[columns[key] for key in kept],
        rows=rows,
        ratios=[ratio for ratio in result.ratios if ratio.column in kept and {ratio.over, ratio.under} <= labels],
        goals=[goal for goal in result.goals if goal.column in kept and goal.row in labels],
    )


def block(result: Result, plots: str) -> list[str]:
    """Format one result: command, machine, tables, and its plot in the folder ``plots``."""
    plot = ["", f"![{result.title}]({plots}/{result.name}.svg)"] if most_rounds(result) else []
    return [f"`{result.command}`: {about(result)}.", "", *tables(result), *plot]


# ------------------------------------------------------------------------------------------------ docstrings


def docstring_of(module: str) -> str:
    """Return the docstring of a module of ``benchmarks``, which is not imported."""
    path = Path(__file__).parent.joinpath(*module.split("."))
    source = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__main__.py"
    return ast.get_docstring(ast.parse(source.read_text())) or ""


def markdown_of(docstring: str) -> Iterator[str]:
    """Turn a docstring into Markdown: code between single backticks, indented lines fenced."""
    fenced = False
    for line in docstring.replace("``", "`").splitlines():
        if line.startswith("    ") != fenced and line:
            fenced = not fenced
            yield "```text" if fenced else "```"
            if not fenced:
                yield ""
        elif fenced and not line:
            continue
        yield line[4:] if fenced else line
    if fenced:
        yield "```"


def _module(result: Result) -> str:
    return result.command.split()[2].removeprefix("benchmarks.")


# ------------------------------------------------------------------------------------------------ plots


def draw_all(results: Sequence[Result], folder: Path = PLOTS) -> None:
    """Draw a plot of each result."""
    try:
        from benchmarks.plots import draw
    except ImportError as error:
        print(f"plots: not drawn: the package {error.name} is not installed")
        return
    folder.mkdir(exist_ok=True)
    for result in results:
        draw(result, folder / f"{result.name}.svg")
    print(f"plots: {len(results)}")


if __name__ == "__main__":
    main()
