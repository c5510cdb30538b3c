"""The format version of a store, and the migration of older stores.

The version is stored in family ``meta``, key ``format``, in decimal. Opening a store compares it:

    none      a new store: it gets the present version
    equal     nothing to do
    older     migrations, one step per version, each synced before the next; FormatError if a step is missing
    newer     FormatError, and nothing is changed

An interrupted step is run again from its start, so steps are idempotent. They are in ``migrations``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from taskqueue.errors import FormatError, Unreadable
from taskqueue.store.contract import Batch, Store, StoreReader

FORMAT: Final = 11
"""Version of the records that ``layout`` describes."""

META: Final = "meta"
FORMAT_KEY: Final = b"format"
EPOCH_KEY: Final = b"epoch"
"""Key of the epoch; a store in which an epoch has begun is not new."""

DIGITS_MOST: Final = 18
"""Digits of a decimal number in META, at most."""

NO_EPOCH: Final = 0
"""Epoch of a store in which none has begun."""

Migration = Callable[[Store, int], None]
"""Function (store, epoch to write under) that rewrites the records of one version for the next one."""

Migrations = Mapping[int, Migration]
"""Migrations by the version that they start from."""


def refuse_newer(store: Store, where: str) -> None:
    """Check the format without writing.

    Raises:
        FormatError: the store was written by a newer version.
    """
    version = _version(store, where)
    if version is not None and version > FORMAT:
        raise FormatError(
            f"{where}: format {version} is newer than {FORMAT}, the newest known here; "
            "start the version of taskqueue that wrote it, or give this one an empty store"
        )


def refuse_other(store: StoreReader, where: str) -> None:
    """Check that a store that is only to be read has the present format.

    Raises:
        FormatError: the store has another format.
    """
    found = store.get(META, [FORMAT_KEY])[0]
    if found != b"%d" % FORMAT:
        version = found.decode(errors="replace") if found else "none"
        raise FormatError(
            f"{where}: the store has format {version}, not {FORMAT}; "
            "a daemon of this version brings an older one up to date when it starts"
        )


def upgrade(store: Store, where: str, migrations: Migrations) -> None:
    """Bring the store to format FORMAT, step by step; nothing is written if it has that format already.

    Raises:
        FormatError: the format is newer, or too old to be migrated.
        Unreadable: the store is not new, but its format is missing.
    """
    refuse_newer(store, where)
    version = _version(store, where)
    if version is None and store.get(META, [EPOCH_KEY])[0] is not None:
        raise Unreadable([(META, FORMAT_KEY, "it is missing")])
    if version is None:
        _mark(store, NO_EPOCH, FORMAT)
    elif version < FORMAT:
        _migrate(store, where, version, migrations)


def _migrate(store: Store, where: str, version: int, migrations: Migrations) -> None:
    missing = [step for step in range(version, FORMAT) if step not in migrations]
    if missing:
        raise FormatError(
            f"{where}: format {version} is too old to be migrated to {FORMAT} (no step from {missing[0]}); "
            "open it with an earlier version of taskqueue first"
        )
    epoch = store.begin()
    for step in range(version, FORMAT):
        migrations[step](store, epoch)
        _mark(store, epoch, step + 1)


def _version(store: Store, where: str) -> int | None:
    """Read the store's format; None for a new store."""
    text = store.get(META, [FORMAT_KEY])[0]
    if text is None:
        return None
    if not (text.isdigit() and len(text) <= DIGITS_MOST):
        raise FormatError(
            f"{where}: its format is {text[:DIGITS_MOST]!r}, not a number; restore the store from a backup"
        )
    return int(text)


def _mark(store: Store, epoch: int, version: int) -> None:
    store.write(epoch, Batch(puts={META: [(FORMAT_KEY, b"%d" % version)]}))
    store.sync()
