"""Reading records that must be readable: guessing would lose tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, TypeVar

from taskqueue.errors import Corrupt
from taskqueue.store import layout
from taskqueue.store.contract import Family

T = TypeVar("T")


def read(family: Family, key: bytes, decode: Callable[..., T], *value: object) -> T:
    """Decode what lies at a key; Corrupt says where it lies if that fails."""
    try:
        return decode(*value)
    except layout.UNREADABLE as error:
        refuse(family, key, str(error))


def refuse(family: Family, key: bytes, reason: str) -> NoReturn:
    """Stop: going on without this record could lose a task."""
    raise Corrupt(f"store: family {family}, key {key.hex()}: can't be read ({reason}); restore the store from a backup")
