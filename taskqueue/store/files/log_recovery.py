"""Recovers the write-ahead logs before RocksDB opens them: a torn tail is cut, damaged logs are set aside if accepted.

    000012.log ✗   copied whole to damaged-1/000012.log, then truncated where the damage begins
    000014.log     moved to damaged-1/000014.log

RocksDB replays every log that it finds, so changes behind damage must be out of its sight, and so must the torn tail
that a crash leaves. Until the store has been opened and has skipped epochs, its mark says that it is damaged: if
recovery is interrupted, the damage has to be accepted again.
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
from taskqueue.store.files.write_log import read_log


def recover_logs(path: str, boot_id: str, *, has_failed: bool, accept: bool) -> Damage | None:
    """Check the logs of a store that is about to be opened; truncate or move what must not be replayed.

    Args:
        boot_id: identifies the current boot of the machine; empty if unknown.
        has_failed: a write of this process has failed.
        accept: go on without the lost changes.

    Returns:
        The damage that was cut out; None if there was none.

    Raises:
        Damaged: acknowledged changes are lost, and that is not accepted or can't be repaired here.
        StoreError: the files are not as RocksDB makes them.
        OSError: a file can't be read or moved.
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
    """Advice for people: what to do about this damage."""
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
    """Truncate the logs of a store that nobody has open; returns the folder that has the whole logs.

    Raises:
        OSError: a file could not be copied, moved or synced.
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
    """Truncate the newest log behind its last whole record, if nobody has the store open.

    RocksDB would stop there by itself; but there is garbage that it never stops reading (rocksdict 0.3.29).
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
    """A log with a torn tail, and the byte up to which it can be read."""

    name: str
    end: int


def _torn_at(path: str) -> _Torn | None:
    """Where the newest log of a store is torn; None: it is whole, or there is none."""
    with closing(Folder(path)) as folder:
        name = max(filter(LOG.fullmatch, folder.names()), key=number_of, default=None)
        if name is None:
            return None
        with folder.open(name) as file:
            end = read_log(name, file).torn_at
    return None if end is None else _Torn(join(path, name), end)


def free_folder(path: str) -> str:
    """The first unused ``damaged-N`` folder of a store."""
    return next(name for n in count(1) if not lexists(name := join(path, f"damaged-{n}")))


def _sync_file(path: str) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
