"""Epochs: who may write. Each start of a scheduler begins one, and the newest fences all before it.

The epoch in force lies in the store itself (family ``meta``, key ``epoch``, decimal). It is the upper part of
every number that the scheduler gives (a seq, or what a token is made of), which leaves it 19 bits, because a number is
signed on the wire: half a million starts.
"""

from __future__ import annotations

from typing import Final

from taskqueue.errors import Fenced, StoreError
from taskqueue.store.contract import Batch
from taskqueue.store.records.format import META

EPOCH_KEY: Final = b"epoch"
EPOCH_BITS: Final = 19


def next_epoch(epoch: int, where: str) -> int:
    """The one after ``epoch``.

    Raises:
        StoreError: there is none.
    """
    if epoch + 1 >= 1 << EPOCH_BITS:
        raise StoreError(f"{where}: all {epoch} epochs of this store are used up; move its tasks to a new one")
    return epoch + 1


def epoch_batch(epoch: int) -> Batch:
    """What is to be written, and synced, to begin an epoch."""
    return Batch(puts={META: [(EPOCH_KEY, b"%d" % epoch)]})


def refuse_older(epoch: int, newest: int, where: str) -> None:
    """A write under ``epoch`` is not for this store any more.

    Raises:
        Fenced: a newer epoch has begun.
    """
    if epoch != newest:
        raise Fenced(f"{where}: epoch {epoch} is over, {newest} has begun; another scheduler uses this store")
