"""The lock of a store, held by the process that has it open for writing."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from os.path import join, lexists

from taskqueue.errors import StoreError
from taskqueue.store.files.folder import LOCK, Folder


@contextmanager
def exclusive_lock(path: str) -> Iterator[None]:
    """Hold a store's lock without opening the store, so that no daemon starts on it.

    Raises:
        StoreError: a daemon has it, or its LOCK is no regular file.
    """
    if not lexists(join(path, LOCK)):
        yield
        return
    with closing(Folder(path)) as folder, folder.open(LOCK, os.O_RDWR) as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StoreError(f"{path}: a scheduler holds this store; stop it first") from None
        yield
