"""Epochs that a store skips when it does not know all that was done in its name: a copy that was put back, a store that
lost changes.

Fetchers may hold tokens of epochs that it has not had, and no token may be given twice; so it goes on as if it had been
started SKIPPED_EPOCHS times. It also forgets which boot it knew, so that buckets start empty and leases get the time
that they get after a power cut: what was handed out meanwhile is unknown.
"""

from __future__ import annotations

from typing import Final

from taskqueue.store.contract import Batch, Store
from taskqueue.store.records.epoch import EPOCH_KEY, next_epoch
from taskqueue.store.records.format import META
from taskqueue.store.records.layout import BOOT_KEY, CLEAN_KEY

SKIPPED_EPOCHS: Final = 1024
"""At most so often may a store have been started after what it knows. An epoch has 19 bits, so there is room for 500
times."""


def skip_epochs(store: Store, where: str, above: int = 0) -> int:
    """Skip epochs above those of the store and above this one; returns the last one that is skipped.

    Raises:
        StoreError: there are not so many left, or the store failed.
    """
    epoch = store.begin()
    last = max(epoch, above) + SKIPPED_EPOCHS
    next_epoch(last, where)
    entries = [(EPOCH_KEY, b"%d" % last), (CLEAN_KEY, b"0")]
    store.write(epoch, Batch(puts={META: entries}, deletes={META: [BOOT_KEY]}))
    store.sync()
    return last
