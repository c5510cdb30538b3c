"""Daemon whose engine meets a full disk while a file says so, on any file system.

The file ``refusal`` beside the store has the number of an error of the system. While it is there, the engine raises
what RocksDB raises after that error, at the same places, as seen on a real full disk with rocksdict 0.3.29:

    opening         the error, because it flushes what the log has
    a write         the error; from then on the store takes no more, even if there is room again
    a sync, a close after such a write: that the writer has had an error
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rocksdict import Options, Rdict, WriteBatch

from taskqueue.store.rocksdb import rocks_store


class LimitedEngine:
    """Rdict that fails on demand (see the module)."""

    list_cf = staticmethod(Rdict.list_cf)

    def __init__(self, path: str, options: Options, families: dict[str, Options]) -> None:
        self._path = path
        self._refusal = Path(path).parent / "refusal"
        self._has_failed = False
        self._may_write("000009.sst")
        self._db = Rdict(path, options, families)

    def write(self, batch: WriteBatch) -> None:
        try:
            self._may_write("000008.log")
        except Exception:
            self._has_failed = True
            raise
        self._check_writer()
        self._db.write(batch)

    def flush_wal(self, sync: bool) -> None:
        self._check_writer()
        self._db.flush_wal(sync)

    def close(self) -> None:
        self._db.close()
        self._check_writer()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    def _may_write(self, name: str) -> None:
        if self._refusal.exists():
            words = os.strerror(int(self._refusal.read_text()))
            raise Exception(f"IO error: While appending to file: {self._path}/{name}: {words}")

    def _check_writer(self) -> None:
        if self._has_failed:
            raise Exception("IO error: Writer has previous error.")


def limit() -> None:
    """Limit all stores that this process opens from now on."""
    vars(rocks_store)["Rdict"] = LimitedEngine
