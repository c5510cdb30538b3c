"""Stores as kill -9 leaves them: made by a separate process, because RocksDB's threads don't survive a fork."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os, sys
from taskqueue.store.contract import Batch
from taskqueue.store.rocksdb.rocks_store import RocksStore

path, synced, unsynced, size, flush = sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5]
store = RocksStore(path, boot_id="boot")
epoch = store.begin()
for n in range(synced + unsynced):
    store.write(epoch, Batch(puts={"ids": [(b"%04d" % n, os.urandom(size))]}))
    if n == synced - 1:
        store.sync()
if flush:
    store.write(epoch, Batch(puts={flush: [(b"0000", b"x")]}))
    store._families[flush].flush()
os.kill(os.getpid(), 9)
"""


def make_killed(path: Path, *, synced: int, unsynced: int = 0, size: int = 100_000, flush: str = "") -> None:
    """Make a store with ``synced`` and ``unsynced`` entries in ``ids``, one a batch, or write these once more.

    Args:
        size: bytes of each value.
        flush: family that gets an entry at the end and is flushed into a table.
    """
    arguments = [path, synced, unsynced, size, flush]
    subprocess.run([sys.executable, "-c", PROGRAM, *map(str, arguments)], check=False, timeout=60)
