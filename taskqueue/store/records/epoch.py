"""Epochs, the fencing tokens of a store: each start of a scheduler begins one, which fences all earlier ones.

The newest epoch is stored in family ``meta``, key ``epoch``, in decimal. It is the upper part of every number that the
scheduler issues (seqs and tokens). Numbers are signed on the wire, which leaves the epoch 19 bits: half a million
starts.
"""

from __future__ import annotations

from typing import Final

from taskqueue.errors import Fenced, StoreError
from taskqueue.store.contract import Batch
from taskqueue.store.records.format import META

EPOCH_KEY: Final = b"epoch"
EPOCH_BITS: Final = 19


def next_epoch(epoch: int, where: str) -> int:
    """The epoch after this one.

    Raises:
        StoreError: all epochs are used up.
    """
    if epoch + 1 >= 1 << EPOCH_BITS:
        raise StoreError(f"{where}: all {epoch} epochs of this store are used up; move its tasks to a new one")
    return epoch + 1


def epoch_batch(epoch: int) -> Batch:
    """The batch that begins an epoch once it is written and synced."""
    return Batch(puts={META: [(EPOCH_KEY, b"%d" % epoch)]})


def refuse_older(epoch: int, newest: int, where: str) -> None:
    """Check that a write's epoch is still the newest.

    Raises:
        Fenced: a newer epoch has begun.
    """
    if epoch != newest:
        raise Fenced(f"{where}: epoch {epoch} is over, {newest} has begun; another scheduler uses this store")
