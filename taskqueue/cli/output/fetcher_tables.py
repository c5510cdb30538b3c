"""Table of fetchers, and sentences on hung places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.table import Table

from taskqueue.cli.output.tables import of_columns, show
from taskqueue.display import fetchers
from taskqueue.protocol.fetchers import Fetcher
from taskqueue.terminal.screen import Screen, Text

FETCHER_FOLDED: Final = frozenset({"fetcher", "note", "address", "projects"})
"""Columns of fetchers that may wrap."""

HUNG_SHOWN: Final = 5
"""Fetchers with hung places that get a sentence below the table, at most."""


def of_fetchers(views: Iterable[Fetcher]) -> Table:
    """Make a table with a row per fetcher: draining, leases and capacity, hung places, outcomes, priority."""
    return of_columns(fetchers.COLUMNS, views, folded=FETCHER_FOLDED)


def show_fetchers(views: Sequence[Fetcher]) -> None:
    """Print a table of fetchers, and their hung places."""
    show(of_fetchers(views))
    for line in of_hung(views):
        Screen().print(line)


def of_hung(views: Iterable[Fetcher]) -> Iterator[Text]:
    """Describe the first HUNG_SHOWN fetchers with hung places, those that have hung longest first."""
    hanging = fetchers.hanging(views)
    for view in hanging[:HUNG_SHOWN]:
        yield Text(fetchers.hung_words(view), "red")
    if len(hanging) > HUNG_SHOWN:
        yield Text(f"and {len(hanging) - HUNG_SHOWN:,} more fetchers have hung places")
