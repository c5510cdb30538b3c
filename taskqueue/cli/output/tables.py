"""Building blocks of tables: a table that cuts nothing, columns, styles, and the fields of one object.

A number without its last digits is a different number. So on a narrow terminal nothing is cut; as needed,

1. spare columns are left out
2. columns of zeros are left out, from the right
3. words wrap that would stand in one line
4. each row becomes a block of lines with a name and a value

Tables of tasks, projects, fetchers, slots and flows are in modules of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from types import MappingProxyType
from typing import Final, TypeVar

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.table import Column, Table

from taskqueue.cli.input.times import local
from taskqueue.display.columns import ListColumn
from taskqueue.protocol.values import TaskCounts
from taskqueue.terminal.screen import Screen, Text

T = TypeVar("T")

NOTHING: Final = frozenset({"", "0", "·"})
"""Contents of an empty cell."""

FOLDED_MOST: Final = 8
"""Characters of a wrapping column, at least, if its words are as long."""


class FittingTable(Table):
    """Table of cells of one line each.

    Attributes:
        spare: headings of columns to leave out first, in this order.
    """

    def __init__(self, spare: Iterable[str] = ()) -> None:
        super().__init__(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
        self.spare = tuple(spare)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for columns in self._attempts():
            if sum(map(_needed, columns)) + len(columns) - 1 <= options.max_width:
                yield from Table.__rich_console__(self._with(columns), console, options)
                return
        yield from self._blocks().__rich_console__(console, options)

    def _attempts(self) -> Iterator[list[Column]]:
        """Yield all columns, then fewer and narrower ones."""
        columns = list(self.columns)
        yield columns
        zeros = [_head(column) for column in reversed(columns) if column.justify == "right" and _is_nothing(column)]
        for head in (*self.spare, *zeros):
            columns = [column for column in columns if _head(column) != head]
            yield columns
        yield [replace(column, no_wrap=False, overflow="fold") if _has_words(column) else column for column in columns]

    def _with(self, columns: list[Column]) -> Table:
        table = copy(self)
        table.columns = [replace(column, _index=place) for place, column in enumerate(columns)]
        return table

    def _blocks(self) -> Table:
        table = named_values()
        table.title = self.title
        for place, row in enumerate(zip(*(column.cells for column in self.columns), strict=True)):
            if place:
                table.add_row()
            for column, cell in zip(self.columns, row, strict=True):
                table.add_row(Text(_head(column), "dim"), cell)
        return table


def named_values() -> Table:
    """Make an empty table of names and values, without a header; values wrap and are never cut."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _head(column: Column) -> str:
    return str(column.header)


def _texts(column: Column) -> list[str]:
    return [str(cell) for cell in column.cells]


def _is_nothing(column: Column) -> bool:
    return NOTHING.issuperset(_texts(column))


def _has_words(column: Column) -> bool:
    return column.justify == "left"


def _needed(column: Column) -> int:
    """Compute the width at which nothing is cut or hard to read."""
    lines = [_head(column), *_texts(column)]
    if column.no_wrap:
        return max(map(cell_len, lines))
    longest = max((cell_len(word) for line in lines for word in line.split()), default=0)
    return max(cell_len(_head(column)), min(longest, FOLDED_MOST))


STATES = tuple(state for state in TaskCounts.__struct_fields__ if state != "blocked")
"""States that have a column in 80 characters; blocked is rare and left out."""
STYLES = {
    "running": "green", "checking": "yellow", "paused": "yellow", "stopped": "red", "success": "green", "failed": "red",
}  # fmt: skip


def show(table: Table) -> None:
    """Print a table; ``none`` if it has no rows."""
    Screen().print(table if table.row_count else "none")


def of_fields(fields: Mapping[str, str], *, long: str = "") -> Table:
    """Make a table with a row per field of an object.

    Args:
        long: field whose value keeps its line ends, such as a traceback; in other values they are escaped, so that
            no value looks like further fields.
    """
    table = named_values()
    for name, value in fields.items():
        table.add_row(Text(name, style="dim"), Text().append(value) if name == long else Text(value))
    return table


def of_columns(
    columns: Sequence[ListColumn[T]],
    rows: Iterable[T],
    *,
    when: Callable[[float], str] = local,
    styles: Mapping[str, Callable[[T], str]] = MappingProxyType({}),
    folded: Collection[str] = (),
) -> Table:
    """Make a table of columns that the dashboard has, too.

    Args:
        when: formats unix seconds.
        styles: styles of cells by heading.
        folded: headings of columns that may wrap.
    """
    table = FittingTable()
    for column in columns:
        justify: JustifyMethod = "left" if column.words else "right"
        folds = column.head in folded
        table.add_column(column.head, justify=justify, no_wrap=not folds, overflow="fold" if folds else "ellipsis")
    for row in rows:
        cells = (when(at) if column.at and (at := column.at(row)) else column.text(row) for column in columns)
        looks = (styles[column.head](row) if column.head in styles else "" for column in columns)
        table.add_row(*map(Text, cells, looks))
    return table


def bare_table(
    words: Iterable[str],
    numbers: Iterable[str],
    more_words: Iterable[str] = (),
    *,
    folded: str = "",
    spare: Iterable[str] = (),
) -> Table:
    """Make a table without lines: columns of words, then of numbers, then of words that may wrap.

    Args:
        folded: column of numbers that may wrap, too.
        spare: columns to leave out first on a narrow terminal.
    """
    table = FittingTable(spare)
    for name in words:
        table.add_column(name, no_wrap=True)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=name != folded)
    for name in more_words:
        table.add_column(name, overflow="fold")
    return table
