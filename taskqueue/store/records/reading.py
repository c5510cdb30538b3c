"""Read values of a store strictly, and families page by page, however many entries they have.

A record that can't be decoded raises Unreadable, because guessing would lose tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NoReturn, TypeVar

from taskqueue.errors import Unreadable
from taskqueue.store.contract import Entry, Family, StoreReader
from taskqueue.store.records import layout
from taskqueue.store.records.format import DIGITS_MOST, META
from taskqueue.store.records.layout import LAST_KEY

T = TypeVar("T")


def decode_record(family: Family, key: bytes, decode: Callable[..., T], *value: object) -> T:
    """Decode the value at a key.

    Raises:
        Unreadable: ``decode`` fails; the message names family and key.
    """
    try:
        return decode(*value)
    except layout.UNREADABLE as error:
        raise_unreadable(family, key, str(error))


def stored_number(store: StoreReader, key: bytes, default: int) -> int:
    """Read a decimal number in META; ``default`` if the key is absent.

    Raises:
        Unreadable: the value is not a number of at most DIGITS_MOST digits.
    """
    value = store.get(META, [key])[0]
    if value is not None and not (value.isdigit() and len(value) <= DIGITS_MOST):
        raise_unreadable(META, key, f"{value[:DIGITS_MOST]!r} is not a number")
    return default if value is None else int(value)


def raise_unreadable(family: Family, key: bytes, reason: str) -> NoReturn:
    """Raise Unreadable for a record: treating it as absent could lose a task."""
    raise Unreadable([(family, key, reason)])


PAGE: Final = 4096
"""Entries per page."""


def pages(store: StoreReader, family: Family, start: bytes = b"", end: bytes = LAST_KEY) -> Iterator[list[Entry]]:
    """Yield all entries with start <= key < end, PAGE at a time; a page with fewer is the last one."""
    while page := store.scan(family, start, end, PAGE):
        yield page
        if len(page) < PAGE:
            return
        start = page[-1][0] + b"\0"
