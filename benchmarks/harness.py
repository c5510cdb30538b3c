"""Shared parts of benchmarks: rounds that alternate, medians with their range, ratios within a round, a file.

    report = Report("idle", "Idle", "python -m benchmarks.idle", [Column("cpu", "CPU", "s/min", 3)])
    for number, contender in alternate(rounds, contenders):
        report.add(contender.label, {"cpu": contender.measure()})
    report.missing("beanstalkd", "the command beanstalkd is not on PATH")
    report.print()
    report.save()              benchmarks/results/idle.json, from which ``benchmarks.report`` makes a table and a plot

Rules:
1. What is compared was measured in the same run. The speed of a shared machine changes from minute to minute, so
   contenders take turns within each round, and the order reverses from one round to the next.
2. A ratio is the median of the ratios of the rounds, not the ratio of the medians.
3. A row that could not be measured says why. It has neither figures nor ratios.
4. A goal is shown beside its ratio and never asserted.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import Struct, field

BUILDS: Final = ("--compiled", "--before")
"""Options whose value is a path on the measuring machine."""
RESULTS: Final = Path(__file__).parent / "results"

T = TypeVar("T")


class Column(Struct, frozen=True):
    """Measured quantity.

    Attributes:
        key: name in ``Report.add``.
        label: name for readers, without the unit.
        unit: unit such as "/s", "ms" or "B"; empty for a plain count.
        digits: digits shown after the point.
    """

    key: str
    label: str
    unit: str = ""
    digits: int = 0

    @property
    def title(self) -> str:
        """Header of the column."""
        return f"{self.label}, {self.unit}" if self.unit else self.label


class Ratio(Struct, frozen=True):
    """Ratio of row ``over`` to row ``under`` of the same run.

    Attributes:
        column: key of the column that is compared.
        goal: text such as "≥ 1.5", shown beside the ratio; empty if there is none.
    """

    label: str
    column: str
    over: str
    under: str
    goal: str = ""


class Goal(Struct, frozen=True):
    """Goal of a single figure; its text is shown beside the figure."""

    label: str
    column: str
    row: str
    goal: str


class Plot(Struct, frozen=True):
    """Drawing of the figures.

    Attributes:
        kind: bars, a group a row, or lines, whose x values are the rows' labels.
        scale: scale of the figures.
        x_label: label of the x axis of lines.
        columns: columns to draw; empty for all.
    """

    kind: Literal["bars", "lines"] = "bars"
    scale: Literal["linear", "log"] = "linear"
    x_label: str = ""
    columns: tuple[str, ...] = ()


class Row(Struct):
    """Figures of one contender, by column, one a round; or the reason why there are none."""

    label: str
    values: dict[str, list[float]] = field(default_factory=dict)
    missing: str = ""


class Result(Struct):
    """Contents of a file in benchmarks/results."""

    name: str
    title: str
    command: str
    date: str
    machine: dict[str, str]
    columns: list[Column]
    rows: list[Row] = field(default_factory=list)
    ratios: list[Ratio] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    plot: Plot = Plot()
    notes: list[str] = field(default_factory=list)

    def row(self, label: str) -> Row | None:
        """Return the row with this label, if there is one."""
        return next((row for row in self.rows if row.label == label), None)


class Report:
    """Figures of a benchmark, as they are collected.

    Args:
        name: name of the file and of the table.
        command: command that repeats the measurement.
    """

    def __init__(
        self,
        name: str,
        title: str,
        command: str,
        columns: Sequence[Column],
        ratios: Sequence[Ratio] = (),
        goals: Sequence[Goal] = (),
        plot: Plot = Plot(),  # noqa: B008  (frozen)
    ) -> None:
        self.result = Result(
            name=name,
            title=title,
            command=command,
            date=date.today().isoformat(),
            machine=machine(),
            columns=list(columns),
            ratios=list(ratios),
            goals=list(goals),
            plot=plot,
        )

    def add(self, label: str, figures: Mapping[str, float]) -> None:
        """Add figures of one round to a row; a column that is left out has no figure in this round.

        Raises:
            KeyError: a column is unknown.
        """
        keys = {column.key for column in self.result.columns}
        row = self._row(label)
        for key, value in figures.items():
            if key not in keys:
                raise KeyError(key)
            row.values.setdefault(key, []).append(value)

    def missing(self, label: str, why: str) -> None:
        """Say why a row has no figures."""
        self._row(label).missing = why

    def note(self, text: str) -> None:
        """Add a sentence below the table."""
        self.result.notes.append(text)

    def print(self) -> None:
        """Print the tables."""
        print(f"\n{self.result.title}: {about(self.result)}\n")
        print("\n".join(tables(self.result)), flush=True)

    def save(self, folder: Path = RESULTS) -> Path:
        """Write the file, replacing an earlier one."""
        folder.mkdir(exist_ok=True)
        path = folder / f"{self.result.name}.json"
        path.write_text(json.dumps(msgspec.to_builtins(self.result), indent=1, ensure_ascii=False) + "\n")
        return path

    def finish(self, options: argparse.Namespace) -> None:
        """Print, and save with ``--save``, recording the options of the command line."""
        self.result.command = as_said(self.result.command, sys.argv[1:])
        self.print()
        if options.save:
            self.save()

    def _row(self, label: str) -> Row:
        row = self.result.row(label)
        if row is None:
            row = Row(label)
            self.result.rows.append(row)
        return row


def load(path: Path) -> Result:
    """Read a saved result."""
    return msgspec.json.decode(path.read_bytes(), type=Result)


def parser(doc: str | None, rounds: int = 3) -> argparse.ArgumentParser:
    """Make a parser of command lines with --rounds and --save."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--rounds", type=int, default=rounds, help=f"rounds of each contender; default: {rounds}")
    made.add_argument("--save", action="store_true", help="write benchmarks/results for benchmarks.report")
    return made


def count_of(text: str) -> int:
    """Parse ``10m``, ``100k``, ``5000``."""
    factor = {"k": 1000, "m": 1_000_000}.get(text[-1:].lower(), 1)
    return int(text.rstrip("kKmM")) * factor


def as_said(command: str, arguments: Sequence[str]) -> str:
    """Return the command with its options, so that readers can repeat the measurement."""
    words = [*command.split()[:3], *(argument for argument in arguments if argument != "--save")]
    return " ".join("VENV" if before in BUILDS else word for before, word in zip(["", *words], words, strict=False))


def alternate(rounds: int, contenders: Sequence[T]) -> Iterator[tuple[int, T]]:
    """Yield every contender once in each round, from 1; every second round goes backwards."""
    for number in range(1, rounds + 1):
        for contender in contenders if number % 2 else reversed(contenders):
            yield number, contender


def machine() -> dict[str, str]:
    """Describe the measuring machine."""
    return {
        "cores": str(os.cpu_count()),
        "cpu": _cpu_model(),
        "python": platform.python_version(),
        "build": build(sysconfig.get_config_var("CONFIG_ARGS") or ""),
        "kernel": platform.release().partition("-")[0],
    }


def build(options: str) -> str:
    """Describe how an interpreter was built, from its ``configure`` options: a build with profiles takes a seventh less
    time."""
    profiles = "--enable-optimizations" in options
    links = "--with-lto" in options and "--with-lto=no" not in options
    shared = ", shared library" if "--enable-shared" in options else ""
    return f"{'with' if profiles else 'without'} PGO, {'with' if links else 'without'} LTO{shared}"


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


# ------------------------------------------------------------------------------------------------ tables


def tables(result: Result) -> list[str]:
    """Format the tables: figures, then ratios and goals, then notes."""
    compared = _ratio_lines(result) + _goal_lines(result)
    lines = _head(["", *(column.title for column in result.columns)])
    lines += [_cells(row.label, *_figures(result, row)) for row in result.rows]
    if compared:
        lines += ["", *_head(["against", "median (least to greatest)", "goal"]), *compared]
    for note in result.notes:
        lines += ["", note]
    return lines


def about(result: Result) -> str:
    """Describe date and machine."""
    on, rounds = result.machine, most_rounds(result)
    how = f" built {on['build']}" if "build" in on else ""
    return (
        f"{rounds} round{'s' if rounds != 1 else ''}, {result.date}, {on['cores']} cores of {on['cpu']}, "
        f"Python {on['python']}{how}, Linux {on['kernel']}"
    )


def most_rounds(result: Result) -> int:
    """Count the rounds of the column with the most."""
    return max((len(values) for row in result.rows for values in row.values.values()), default=0)


def ratio_values(result: Result, ratio: Ratio) -> list[float]:
    """Compute the ratio in each round that measured both."""
    over, under = (result.row(label) for label in (ratio.over, ratio.under))
    if over is None or under is None:
        return []
    pairs = zip(over.values.get(ratio.column, []), under.values.get(ratio.column, []), strict=False)
    return [above / below for above, below in pairs if below]


def shown(values: Sequence[float], digits: int) -> str:
    """Format the median, and the range if there are several rounds."""
    middle = f"{median(values):,.{digits}f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


def _figures(result: Result, row: Row) -> list[str]:
    if row.missing:
        return [f"not measured: {row.missing}"] + [""] * (len(result.columns) - 1)
    return [shown(values, column.digits) if (values := row.values.get(column.key)) else "" for column in result.columns]


def _ratio_lines(result: Result) -> list[str]:
    lines = []
    for ratio in result.ratios:
        values = ratio_values(result, ratio)
        lines.append(_cells(ratio.label, f"{shown(values, 2)}" if values else "not measured", ratio.goal))
    return lines


def _goal_lines(result: Result) -> list[str]:
    digits = {column.key: column.digits for column in result.columns}
    lines = []
    for goal in result.goals:
        row = result.row(goal.row)
        values = row.values.get(goal.column) if row else None
        lines.append(_cells(goal.label, shown(values, digits[goal.column]) if values else "not measured", goal.goal))
    return lines


def _head(names: Sequence[str]) -> list[str]:
    return [_cells(*names), "|---|" + "---:|" * (len(names) - 1)]


def _cells(*cells: Any) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"
