"""The columns of tables that a terminal and a page both show: one declaration of what is told of a row, and how."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class ListColumn(NamedTuple, Generic[T]):
    """A thing that is told of each row.

    Attributes:
        head: what it is called.
        told: of a row; empty: there is nothing to be told.
        sort: the order of a list by it; empty: there is none.
        words: it is told in words, else in numbers.
        at: unix seconds of a row, which terminal and page tell each in its own way; if they are 0, ``told`` is told.
    """

    head: str
    told: Callable[[T], str]
    sort: str = ""
    words: bool = False
    at: Callable[[T], float] | None = None


def time_column(head: str, at: Callable[[T], float]) -> ListColumn[T]:
    """A column of times in unix seconds; 0 is an empty cell."""
    return ListColumn(head, lambda row: "", words=True, at=at)
