"""What RocksDB, through ``rocksdict``, leaves to whoever uses it: to know that something failed, and what.

1. It tells of failures by bare Exceptions with a line of text, and of some by OSErrors. ``failures`` is the one place
   where these become StoreErrors; nothing of the engine is called outside of it.
2. A scan that can't be read on ends like one that has come to its end. ``scan`` asks which it was.
3. A failure keeps nothing open: an iterator in the frames of an error would keep the lock of the store.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EDQUOT, EIO, ENOSPC
from typing import Final

from rocksdict import DbClosedError, Rdict, ReadOptions

from taskqueue.errors import DiskError, StoreError

Entry = tuple[bytes, bytes]

PASSING: Final = (ENOSPC, EDQUOT, EIO)
"""What a disk says that may work again later."""


@contextmanager
def failures(path: str, verb: str) -> Iterator[None]:
    """Calls of the engine, for the store in a folder; the verb says what they do with it, for people.

    Raises:
        DiskError: the disk did not let it.
        StoreError: it failed in another way.
    """
    try:
        yield
    except (DbClosedError, KeyError):
        raise StoreError(f"{path}: the store is closed; open another one there") from None
    except Exception as error:
        raise _told(path, verb, error) from error


def scan(family: Rdict, start: bytes, end: bytes, limit: int, *, backwards: bool = False) -> list[Entry]:
    """At most so many entries with start <= key < end, ascending or backwards; call it within ``failures``.

    Its four calls for each entry take no longer than the ``items`` of a family, whose end has no reason.
    """
    # The lower bound is looked at here: set_iterate_lower_bound of rocksdict sets the upper one.
    bounds = ReadOptions()
    bounds.set_iterate_upper_bound(end)
    cursor = family.iter(bounds)
    is_there, key, value, step = cursor.valid, cursor.key, cursor.value, cursor.prev if backwards else cursor.next
    entries: list[Entry] = []
    try:
        if backwards:
            cursor.seek_to_last()
        else:
            cursor.seek(start)
        while len(entries) < limit and is_there() and (found := key()) >= start:
            entries.append((found, value()))
            step()
        cursor.status()
    finally:
        del family, cursor, is_there, key, value, step
    return entries


def _told(path: str, verb: str, error: Exception) -> StoreError:
    said = str(error)
    if "/LOCK:" in said and not _reason(error):
        return StoreError(f"{path}: another scheduler holds this store; stop it, or choose another store.path")
    message = f"{path}: could not {verb} the store: {said}"
    reason = _reason(error)
    return DiskError(message, reason) if reason else StoreError(message)


def _reason(error: Exception) -> str:
    """What the disk said, if that may pass; RocksDB has it only in its text, in the words of the C library."""
    if isinstance(error, OSError):
        return os.strerror(error.errno) if error.errno in PASSING else ""
    return next((words for words in map(os.strerror, PASSING) if words in str(error)), "")
