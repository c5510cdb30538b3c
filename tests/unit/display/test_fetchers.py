"""Texts of fetchers: places never hold more tasks than there are places."""

from __future__ import annotations

from typing import get_args

from msgspec.structs import replace

from taskqueue.display.daemon import facts
from taskqueue.display.fetchers import COLUMNS, held
from taskqueue.protocol.choices import FetcherSort
from taskqueue.protocol.daemon import DaemonReply
from taskqueue.protocol.fetchers import Fetcher, FetchersReply, HungPlaces

SEEN = FetchersReply(n=1, fetchers=[], more=False, found=2, capacity=38, holds=38)


def test_of_places_no_more_are_held_than_there_are_and_what_is_beyond_is_told_apart() -> None:
    assert held(SEEN) == "2 fetchers hold 38 of 38"
    assert held(replace(SEEN, holds=39, beyond=1)) == "2 fetchers hold 38 of 38 and 1 beyond"
    assert held(replace(SEEN, holds=6, beyond=5, hung=3)) == "2 fetchers hold 1 of 38 and 5 beyond, 3 hung"


def test_a_row_and_the_lines_of_the_daemon_tell_it_apart_too() -> None:
    holds = next(column.text for column in COLUMNS if column.head == "holds")
    view = Fetcher(session="9e3b", name="web1", capacity=2, holds=3, silent_seconds=0.0)

    assert holds(view) == "2/2+1"
    assert holds(replace(view, holds=2)) == "2/2"
    assert holds(replace(view, hung=HungPlaces(1))) == "1/2+2"
    assert holds(replace(view, holds=1, free=1)) == "1/2"
    assert holds(replace(view, holds=1, free=2)) == "0/2+1"  # it has passed on what it holds
    assert holds(replace(view, capacity=0, holds=0, hung=HungPlaces(1))) == "0/0"
    daemon = DaemonReply(n=1, epoch=1, fetchers=2, capacity=38, holds=39, beyond=1)
    assert dict(facts(daemon))["fetchers"] == "2, which hold 38 of 38 and 1 beyond"


def test_fetchers_are_sorted_by_columns_in_orders_that_the_daemon_knows() -> None:
    assert {column.sort for column in COLUMNS if column.sort} <= set(get_args(FetcherSort))
