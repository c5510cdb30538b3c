"""Plots of results: a panel a unit, medians as bars or lines, least and greatest as whiskers.

The same figures give the same file: no date, no version, no random ids, and text stays text.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import matplotlib

from benchmarks.harness import Column, Result, Row

matplotlib.use("Agg")

from matplotlib import pyplot

OURS: Final = "#1f6f8b"
THEIRS: Final = "#b8c4cc"
COLOURS: Final = (OURS, "#e08e45", "#6a994e", "#bc4749", "#7d5ba6", "#8d99ae")
INK: Final = "#30363d"
STYLE: Final = {
    "svg.hashsalt": "taskqueue",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#c9d1d9",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#e6eaee",
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
}
WIDTH: Final = 8.0
BAR_INCHES: Final = 0.28


def draw(result: Result, path: Path) -> None:
    """Write the plot of a result; a result without figures gets none."""
    panels = panels_of(result)
    if not panels:
        return
    with matplotlib.rc_context(STYLE):
        act = _lines if result.plot.kind == "lines" else _bars
        figure = act(result, panels)
        figure.suptitle(result.title, x=0.01, ha="left", fontsize=12, fontweight="bold")
        figure.savefig(path, metadata={"Date": None, "Creator": None})
        pyplot.close(figure)


def panels_of(result: Result) -> list[list[Column]]:
    """Group columns of the same unit into panels."""
    wanted = result.plot.columns or tuple(column.key for column in result.columns)
    panels: dict[str, list[Column]] = {}
    for column in result.columns:
        if column.key in wanted and any(row.values.get(column.key) for row in result.rows):
            panels.setdefault(column.unit, []).append(column)
    return list(panels.values())


def _bars(result: Result, panels: Sequence[Sequence[Column]]) -> Any:
    """Draw groups of bars from top to bottom, in the order of the table."""
    rows = [row for row in result.rows if row.values]
    heights = [BAR_INCHES * len(rows) * (len(columns) + 0.6) + 0.7 for columns in panels]
    figure, axes = _figure(heights)
    for axis, columns in zip(axes, panels, strict=True):
        thick = 0.8 / len(columns)
        for place, column in enumerate(columns):
            measured = [(y, row) for y, row in enumerate(rows) if row.values.get(column.key)]
            at = [y - 0.4 + thick * (place + 0.5) for y, _ in measured]
            middles, whiskers = _figures([row for _, row in measured], column)
            colours = _colours([row for _, row in measured], columns, place)
            axis.barh(
                at, middles, thick * 0.92, xerr=whiskers, color=colours, ecolor=INK, capsize=2, label=column.label
            )
            for y, middle, greatest in zip(at, middles, whiskers[1], strict=True):
                axis.annotate(
                    f"{middle:,.{column.digits}f}", (middle + greatest, y), (4, 0),
                    textcoords="offset points", va="center", fontsize=8,
                )  # fmt: skip
        axis.set_yticks(range(len(rows)), [row.label for row in rows])
        axis.invert_yaxis()
        axis.grid(False, axis="y")
        axis.margins(x=0.12)
        axis.set_xscale(result.plot.scale)
        axis.set_xlabel(_unit(columns))
        _finish(axis.xaxis, result)
        if len(columns) > 1:
            axis.legend(fontsize=8)
    return figure


def _lines(result: Result, panels: Sequence[Sequence[Column]]) -> Any:
    """Draw lines over the numbers in the rows' labels."""
    rows = [row for row in result.rows if row.values]
    figure, axes = _figure([2.6 for _ in panels])
    for axis, columns in zip(axes, panels, strict=True):
        for column, colour in zip(columns, _cycle(len(columns)), strict=True):
            measured = [row for row in rows if row.values.get(column.key)]
            middles, whiskers = _figures(measured, column)
            x = [number_of(row.label) for row in measured]
            axis.errorbar(
                x, middles, yerr=whiskers, color=colour, marker="o", markersize=4, capsize=2, label=column.label
            )
        axis.set_xlabel(result.plot.x_label)
        axis.set_ylabel(_unit(columns))
        axis.set_yscale(result.plot.scale)
        if result.plot.scale == "linear":
            axis.set_ylim(bottom=0)
        _finish(axis.yaxis, result)
        axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        if len(columns) > 1:
            axis.legend(fontsize=8)
    return figure


def number_of(label: str) -> float:
    """Parse the label of a row of lines: ``3,000,000`` or ``3 million``.

    Raises:
        ValueError: it is not a number.
    """
    digits, _, word = label.replace(",", "").partition(" ")
    return float(digits) * {"": 1, "million": 1_000_000}[word]


def _figure(heights: Sequence[float]) -> tuple[Any, list[Any]]:
    figure, axes = pyplot.subplots(
        len(heights),
        squeeze=False,
        figsize=(WIDTH, sum(heights) + 0.5),
        height_ratios=heights,
        layout="constrained",
    )
    return figure, list(axes[:, 0])


def _figures(rows: Sequence[Row], column: Column) -> tuple[list[float], tuple[list[float], list[float]]]:
    """Return medians, and their distances to the least and the greatest value."""
    values = [row.values[column.key] for row in rows]
    middles = [median(each) for each in values]
    below = [middle - min(each) for middle, each in zip(middles, values, strict=True)]
    above = [max(each) - middle for middle, each in zip(middles, values, strict=True)]
    return middles, (below, above)


def _colours(rows: Sequence[Row], columns: Sequence[Column], place: int) -> list[str]:
    """Choose colours: taskqueue's rows stand out, or, if columns share a panel, each column has its own."""
    if len(columns) > 1:
        return [_cycle(len(columns))[place]] * len(rows)
    are_ours = [row.label.startswith("taskqueue") for row in rows]
    return [OURS if is_ours or not any(are_ours) else THEIRS for is_ours in are_ours]


def _cycle(count: int) -> list[str]:
    return [COLOURS[index % len(COLOURS)] for index in range(count)]


def _unit(columns: Sequence[Column]) -> str:
    if len(columns) == 1:
        return columns[0].title
    return columns[0].unit


def _finish(axis: Any, result: Result) -> None:
    if result.plot.scale == "linear":
        axis.set_major_formatter(lambda value, _: f"{value:,.10g}")
