"""Skipping epochs: used on a store that may lack the newest history, such as a restored backup or one that lost
changes.

Fetchers may hold tokens of epochs that such a store has never seen, and no token may be issued twice; so the epoch is
raised as if the store had been started SKIPPED_EPOCHS times. The stored boot id is deleted, too, so that buckets start
empty and leases get the grace that follows a power cut: what was handed out meanwhile is unknown.
"""

from __future__ import annotations

from typing import Final

from taskqueue.store.contract import Batch, Store
from taskqueue.store.records.epoch import EPOCH_KEY, next_epoch
from taskqueue.store.records.format import META
from taskqueue.store.records.layout import BOOT_KEY, CLEAN_KEY

SKIPPED_EPOCHS: Final = 1024
"""Starts that may have happened after the newest one the store knows. An epoch has 19 bits: room for 500 skips."""


def skip_epochs(store: Store, where: str, above: int = 0) -> int:
    """Skip epochs above the store's newest one and above ``above``; returns the last epoch that is skipped.

    Raises:
        StoreError: too few epochs are left, or the store failed.
    """
    return begin_unclean(store, where, above, SKIPPED_EPOCHS)


def begin_unclean(store: Store, where: str, above: int, skipped: int) -> int:
    """The same for so many epochs; none where it is known that no later ones had begun."""
    epoch = store.begin()
    last = max(epoch, above) + skipped
    next_epoch(last, where)
    entries = [(EPOCH_KEY, b"%d" % last), (CLEAN_KEY, b"0")]
    store.write(epoch, Batch(puts={META: entries}, deletes={META: [BOOT_KEY]}))
    store.sync()
    return last
