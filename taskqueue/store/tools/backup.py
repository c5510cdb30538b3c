"""Backups: copying a store while a daemon goes on, and restoring a copy in the place of a store.

    back up   snapshot ──► FOLDER.partial-xxx ──rename──► FOLDER        complete, or not there at all
    restore   snapshot of the copy ──► PATH.partial-xxx ──open, skip epochs──► rename ──► PATH

A copy is a store like any other: every tool can open it.

A restored store does not know what was done after the copy was made, so it skips epochs (``epochs``), above its own
and above those of the store that it replaces.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from os.path import exists
from tempfile import mkdtemp

from taskqueue.errors import FormatError, StoreError
from taskqueue.store.files.file_snapshot import FileSnapshot, sync_folder
from taskqueue.store.files.folder import exclusive_lock, is_store
from taskqueue.store.records.epochs import skip_epochs
from taskqueue.store.rocksdb.rocks_snapshot import ReadOnlyStore
from taskqueue.store.rocksdb.rocks_store import RocksStore


def back_up(path: str, folder: str) -> int:
    """Copy the store in ``path``, even while a daemon uses it, to a folder that is empty or absent; returns the copy's
    bytes.

    Every write that had returned is in the copy.

    Raises:
        StoreError: there is no store, or something is in the folder.
        OSError: the copy could not be written; nothing is left of it.
    """
    _refuse_filled(folder)
    with closing(FileSnapshot(path)) as snapshot, _partial(folder) as partial:
        snapshot.copy_to(partial)
        os.rename(partial, folder)
        sync_folder(_above(folder))
        return snapshot.file_bytes


def restore(copy: str, path: str, aside: str | None) -> int:
    """Put a copy in the place of the store in ``path``; returns the last epoch that it skips.

    Args:
        aside: where an existing store is moved to; None: there must be none.

    Raises:
        StoreError: there is a store and nowhere to move it to, it is in use, or the copy can't be opened.
        OSError: a write failed; the existing store is as it was. If only the last sync failed, it is at ``aside``.
    """
    if aside is None and is_store(path):
        raise StoreError(f"{path}: there is a store here already; say --replace to move it aside")
    if not is_store(path):
        _refuse_filled(path)
    with closing(FileSnapshot(copy)) as snapshot, _partial(path) as partial, exclusive_lock(path):
        snapshot.copy_to(partial, trusted=False)
        epoch = _begin_anew(partial, path)
        _take_place(partial, path, aside)
        sync_folder(_above(path))
        return epoch


def _take_place(partial: str, path: str, aside: str | None) -> None:
    """Rename the copy to its final name; what has that name is moved aside, and moved back if the rename fails."""
    if aside is None or not exists(path):
        os.rename(partial, path)
        return
    os.rename(path, aside)
    try:
        os.rename(partial, path)
    except BaseException:
        os.rename(aside, path)
        raise


def _begin_anew(folder: str, replaced: str) -> int:
    """Open the copy, which proves that it can be opened, and skip epochs that may have been used."""
    with closing(RocksStore(folder)) as store:
        return skip_epochs(store, folder, _epoch_of(replaced))


def _epoch_of(path: str) -> int:
    """The newest epoch of the store that is replaced; 0: there is none, or it is too damaged to tell."""
    try:
        with closing(ReadOnlyStore(path)) as reader:
            return reader.epoch
    except (StoreError, FormatError, OSError):
        return 0


@contextmanager
def _partial(folder: str) -> Iterator[str]:
    """A temporary folder beside ``folder``, to be filled and renamed; deleted at the end if it still exists."""
    os.makedirs(_above(folder), exist_ok=True)
    partial = mkdtemp(prefix=f"{os.path.basename(os.path.abspath(folder))}.partial-", dir=_above(folder))
    try:
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _above(folder: str) -> str:
    return os.path.dirname(os.path.abspath(folder))


def _refuse_filled(folder: str) -> None:
    if is_store(folder):
        raise StoreError(f"{folder}: there is a store here already")
    if exists(folder) and os.listdir(folder):
        raise StoreError(f"{folder}: the folder is not empty")
