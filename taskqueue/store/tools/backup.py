"""Backups: copying a store while a daemon goes on, and restoring a copy in the place of a store.

    back up   snapshot ──► FOLDER.partial-xxx ──rename──► FOLDER        complete or absent
    restore   snapshot of the copy ──► PATH.partial-xxx ──open, skip epochs──► rename ──► PATH

A copy is a store like any other: every tool can open it.

A restored store lacks all changes since the copy was made, so it skips epochs (``epochs``), above its own and above
those of the store that it replaces.
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
    """Copy the store in ``path``, even while a daemon uses it, to an empty or absent folder; return the copy's bytes.

    Every write that had returned is in the copy.

    Raises:
        StoreError: there is no store, or the folder is not empty.
        OSError: the copy could not be written; nothing is left of it.
    """
    _refuse_filled(folder)
    with closing(FileSnapshot(path)) as snapshot, _partial(folder) as partial:
        snapshot.copy_to(partial)
        os.rename(partial, folder)
        sync_folder(_above(folder))
        return snapshot.file_bytes


def restore(copy: str, path: str, aside: str | None) -> int:
    """Put a copy in the place of the store in ``path``; return the last epoch that it skips.

    Args:
        aside: new place of an existing store; None if there must be none.

    Raises:
        StoreError: a store exists and ``aside`` is None, it is in use, or the copy can't be opened.
        OSError: a write failed; the existing store is unchanged. If only the last sync failed, it is at ``aside``.
    """
    if aside is None and is_store(path):
        raise StoreError(f"{path}: there is a store here already; use --replace to move it aside")
    if not is_store(path):
        _refuse_filled(path)
    with closing(FileSnapshot(copy)) as snapshot, _partial(path) as partial, exclusive_lock(path):
        snapshot.copy_to(partial, trusted=False)
        epoch = _begin_anew(partial, path)
        _take_place(partial, path, aside)
        sync_folder(_above(path))
        return epoch


def _take_place(partial: str, path: str, aside: str | None) -> None:
    """Rename the copy to its final name; an old folder is moved aside, and moved back if the rename fails."""
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
    """Open the copy, which tests it, and skip epochs that may have been used."""
    with closing(RocksStore(folder)) as store:
        return skip_epochs(store, folder, _epoch_of(replaced))


def _epoch_of(path: str) -> int:
    """Return the newest epoch of the replaced store; 0 if there is none, or it is too damaged."""
    try:
        with closing(ReadOnlyStore(path)) as reader:
            return reader.epoch
    except (StoreError, FormatError, OSError):
        return 0


@contextmanager
def _partial(folder: str) -> Iterator[str]:
    """Make a temporary folder beside ``folder``, to be filled and renamed; delete it at the end if it still exists."""
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
