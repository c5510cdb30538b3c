"""Epochs, the fencing tokens of a store: each start of a daemon begins one, which fences all earlier ones.

The newest epoch is stored in family ``meta``, key ``epoch``, in decimal. It is the upper part of every number that the
daemon issues (seqs and tokens). Numbers are signed on the wire, which leaves the epoch 19 bits: half a million
starts.

Epochs are skipped in a store that may lack the newest history, such as a restored backup or one that lost changes.
Fetchers may hold tokens of epochs that such a store has never seen, and no token may be issued twice; so the epoch is
raised as if the store had been started SKIPPED_EPOCHS times. The stored boot id is deleted, too, so that buckets start
empty and leases get the grace that follows a power cut: tasks dispatched meanwhile are unknown.
"""

from __future__ import annotations

from typing import Final

from taskqueue.errors import Fenced, StoreError
from taskqueue.store.contract import Batch, Store
from taskqueue.store.records.format import EPOCH_KEY, META
from taskqueue.store.records.layout import BOOT_KEY, CLEAN_KEY

EPOCH_BITS: Final = 19


def next_epoch(epoch: int, where: str) -> int:
    """Return the epoch after this one.

    Raises:
        StoreError: all epochs are used up.
    """
    if epoch + 1 >= 1 << EPOCH_BITS:
        raise StoreError(f"{where}: all {epoch} epochs of this store are used up; move its tasks to a new one")
    return epoch + 1


def epoch_batch(epoch: int) -> Batch:
    """Make the batch that begins an epoch once it is written and synced."""
    return Batch(puts={META: [(EPOCH_KEY, b"%d" % epoch)]})


def refuse_older(epoch: int, newest: int, where: str) -> None:
    """Check that a write's epoch is still the newest.

    Raises:
        Fenced: a newer epoch has begun.
    """
    if epoch != newest:
        raise Fenced(f"{where}: epoch {epoch} has ended, {newest} has begun; another daemon uses this store")


SKIPPED_EPOCHS: Final = 1024
"""Starts that may have followed the newest one in the store. An epoch has 19 bits: room for 500 skips."""


def skip_epochs(store: Store, where: str, above: int = 0) -> int:
    """Skip epochs above the store's newest one and above ``above``; return the last skipped epoch.

    Raises:
        StoreError: too few epochs are left, or the store failed.
    """
    return begin_unclean(store, where, above, SKIPPED_EPOCHS)


def begin_unclean(store: Store, where: str, above: int, skipped: int) -> int:
    """Skip a number of epochs; return the last skipped one.

    Args:
        above: epoch that must be skipped, too.
        skipped: number of epochs; 0 if no later ones can have begun.
    """
    epoch = store.begin()
    last = max(epoch, above) + skipped
    next_epoch(last, where)
    entries = [(EPOCH_KEY, b"%d" % last), (CLEAN_KEY, b"0")]
    store.write(epoch, Batch(puts={META: entries}, deletes={META: [BOOT_KEY]}))
    store.sync()
    return last
