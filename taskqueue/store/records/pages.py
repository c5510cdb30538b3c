"""Iterates over a family of a store in pages, however many entries it has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from taskqueue.store.contract import Entry, Family, StoreReader
from taskqueue.store.records.layout import LAST_KEY

PAGE: Final = 4096
"""Entries per page."""


def pages(store: StoreReader, family: Family, start: bytes = b"", end: bytes = LAST_KEY) -> Iterator[list[Entry]]:
    """All entries with start <= key < end, PAGE at a time; a page with fewer is the last one."""
    while page := store.scan(family, start, end, PAGE):
        yield page
        if len(page) < PAGE:
            return
        start = page[-1][0] + b"\0"
