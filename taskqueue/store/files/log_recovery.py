"""Going on with a damaged store: it is cut where its damage begins, and what was behind that is kept aside.

    000012.log ✗   cut, and a copy of the whole ──► damaged-1/000012.log
    000014.log     ────────────────────────moved──► damaged-1/000014.log

RocksDB replays what it finds, so what must not be replayed has to be out of its sight; so has the torn end that a crash
leaves. Until the store has been opened and has skipped epochs, its mark says that it is damaged: if this is cut off, it
has to be accepted again.
"""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from itertools import count
from os.path import join, lexists
from typing import NamedTuple

from taskqueue.errors import Damaged, StoreError
from taskqueue.store.files.damage import Damage, find_damage, number_of
from taskqueue.store.files.file_snapshot import sync_folder
from taskqueue.store.files.folder import LOG, Folder
from taskqueue.store.files.lock import exclusive_lock
from taskqueue.store.files.synced_mark import SyncedMark, SyncedMarkWriter
from taskqueue.store.files.write_log import Run, read_log


def recover_logs(path: str, boot_id: str, *, has_failed: bool, accept: bool) -> Damage | None:
    """Look at a store that is about to be opened; what it has lost is cut out of its sight, if that may be.

    Args:
        boot_id: names this run of the machine; empty: not known.
        has_failed: a write of this process has failed.
        accept: go on without what is lost.

    Raises:
        Damaged: it may not be, or can't.
        StoreError: its files are not as RocksDB makes them.
        OSError: they can't be read, or not be set aside.
    """
    damage = find_damage(path, boot_id, has_failed=has_failed)
    if damage is None:
        _cut_torn_end(path)
        return None
    try:
        with exclusive_lock(path):
            pass
    except StoreError:
        return None  # whoever has it is at work in it, and opening it will say so
    if damage.is_unexplained and (damage.tables_ahead or not accept):
        raise Damaged("\n".join([f"{path}: the store is damaged", *damage.lines(), remedy(path, damage)]))
    damage.aside = set_aside(path, damage)
    return damage


def remedy(path: str, damage: Damage) -> str:
    """What to do about a damage that is told."""
    if damage.tables_ahead:
        why = "its tables have later changes than what is left of its logs, so " if damage.known else ""
        return (
            f"{why}it can't go on as it is; save what can "
            f"be saved into a new store: taskqueue store repair {path} NEW; or put a backup back: taskqueue store "
            "restore"
        )
    return (
        "to go on without what is lost: taskqueue scheduler --accept-damage, which keeps the damaged logs in "
        f"{free_folder(path)}; to save what can be read behind the damage, too, into a new store: taskqueue store "
        f"repair {path} NEW; or put a backup back: taskqueue store restore"
    )


def set_aside(path: str, damage: Damage) -> str:
    """Cut the logs of a store that nobody has open; returns the folder where all of them are kept.

    Raises:
        OSError: it could not be done.
    """
    marker = SyncedMarkWriter(path, SyncedMark(damage.known, 0, 0, "MANIFEST-0", 0, damage.marked_at, ""))
    try:
        marker.sync()
    finally:
        marker.close()
    aside = free_folder(path)
    os.mkdir(aside)
    last, end = (-1, 0) if damage.stop is None else (number_of(damage.stop[0]), damage.stop[1])
    for name in damage.logs:
        if number_of(name) == last:
            shutil.copyfile(join(path, name), join(aside, name))
            _sync_file(join(aside, name))
    sync_folder(aside)
    for name in damage.logs:
        if number_of(name) > last:
            os.rename(join(path, name), join(aside, name))
    if damage.stop is not None:
        os.truncate(join(path, damage.stop[0]), end)
        _sync_file(join(path, damage.stop[0]))
    sync_folder(aside)
    sync_folder(path)
    return aside


def _cut_torn_end(path: str) -> None:
    """Take off the newest log what a crash has left behind its last whole record, if nobody has the store open.

    RocksDB goes no further, either; but there is garbage that it never stops reading (rocksdict 0.3.29).
    """
    if _torn_at(path) is None:
        return
    try:
        with exclusive_lock(path):
            # Before the lock was held, it may have been a record that was just being written.
            if (torn := _torn_at(path)) is not None:
                os.truncate(torn.name, torn.end)
                _sync_file(torn.name)
    except StoreError:
        return  # whoever has it is at work in it, and opening it will say so


class _Torn(NamedTuple):
    """A log, and the byte up to which it can be read."""

    name: str
    end: int


def _torn_at(path: str) -> _Torn | None:
    """Where the newest log of a store is torn; None: it is whole, or there is none."""
    with closing(Folder(path)) as folder:
        name = max(filter(LOG.fullmatch, folder.names()), key=number_of, default=None)
        if name is None:
            return None
        with folder.open(name) as file:
            parts = read_log(name, file).parts
    if not parts or isinstance(parts[-1], Run):
        return None
    return _Torn(join(path, name), max((part.end for part in parts if isinstance(part, Run)), default=0))


def free_folder(path: str) -> str:
    """Where logs of this store would be put aside next."""
    return next(name for n in count(1) if not lexists(name := join(path, f"damaged-{n}")))


def _sync_file(path: str) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
