"""The table of fetchers, and sentences on those that have hung places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.table import Table

from taskqueue.cli.output.tables import of_columns, show
from taskqueue.display import fetchers
from taskqueue.protocol.fetchers import Fetcher
from taskqueue.terminal.screen import Screen, Text

FETCHER_FOLDED: Final = frozenset({"fetcher", "address", "projects"})
"""Columns of fetchers that may wrap."""

HUNG_SHOWN: Final = 5
"""Fetchers with hung places of which a sentence follows their table."""


def of_fetchers(views: Iterable[Fetcher]) -> Table:
    """A row per fetcher: whether it drains, tasks held and capacity, hung places, outcomes, its priority."""
    return of_columns(fetchers.COLUMNS, views, folded=FETCHER_FOLDED)


def show_fetchers(views: Sequence[Fetcher]) -> None:
    """Print a table of fetchers, and what hangs at them."""
    show(of_fetchers(views))
    for line in of_hung(views):
        Screen().print(line)


def of_hung(views: Iterable[Fetcher]) -> Iterator[Text]:
    """A sentence for each of the first HUNG_SHOWN fetchers that have hung places, the longest first."""
    hanging = fetchers.hanging(views)
    for view in hanging[:HUNG_SHOWN]:
        yield Text(fetchers.hung_words(view), "red")
    if len(hanging) > HUNG_SHOWN:
        yield Text(f"and {len(hanging) - HUNG_SHOWN:,} more fetchers have hung places")
