"""Columns of tables that the terminal and the dashboard share: each is declared once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class ListColumn(NamedTuple, Generic[T]):
    """Column of a table.

    Attributes:
        head: its title.
        text: function that returns the text of a row's cell; may be empty.
        sort: order of a list by this column; empty if there is none.
        words: True for texts, False for numbers.
        at: time of a row in unix seconds, which terminal and dashboard format each in their own way; if it is 0, the
            cell shows ``text``.
    """

    head: str
    text: Callable[[T], str]
    sort: str = ""
    words: bool = False
    at: Callable[[T], float] | None = None


def time_column(head: str, at: Callable[[T], float]) -> ListColumn[T]:
    """Make a column of times in unix seconds; 0 is an empty cell."""
    return ListColumn(head, lambda row: "", words=True, at=at)
