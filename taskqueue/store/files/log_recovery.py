"""Recover the write-ahead logs before RocksDB opens them, and name the tasks that lost changes.

A torn tail is cut; damaged logs are set aside if the operator accepts that:

    000012.log ✗   copied whole to damaged-1/000012.log, then truncated where the damage begins
    000014.log     moved to damaged-1/000014.log

RocksDB replays every log that it finds, so it must find neither changes behind damage nor the torn tail of a crash.
Until the store has been opened and has skipped epochs, its mark says that it is damaged: if recovery is interrupted,
the damage has to be accepted again.

Tasks that lost changes are named as far as the cut logs can still be read. A record of a log is a batch: number and
count of its changes, then the changes, each a tag, a family, a key and, unless it deletes, a value
(https://github.com/facebook/rocksdb/blob/main/db/write_batch.cc). Only puts into ``ids`` are considered: every change
of a task but its dispatch includes one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import count
from os.path import join, lexists
from typing import Final, NamedTuple

from taskqueue.errors import Damaged, StoreError
from taskqueue.store.files.damage import Damage, find_damage, number_of
from taskqueue.store.files.file_snapshot import sync_folder
from taskqueue.store.files.folder import LOG, Folder, exclusive_lock
from taskqueue.store.files.log_records import Record, records_of
from taskqueue.store.files.synced_mark import SyncedMark, SyncedMarkWriter
from taskqueue.store.files.write_log import BATCH, read_log
from taskqueue.store.records import layout


def recover_logs(path: str, boot_id: str, *, has_failed: bool, accept: bool) -> Damage | None:
    """Check the logs of a store that is about to be opened; truncate or move what must not be replayed.

    Args:
        boot_id: identifies the current boot of the machine; empty if unknown.
        has_failed: a write of this process has failed.
        accept: go on without the lost changes.

    Returns:
        Damage that was cut out; None if there was none.

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
        return None  # another process is using it, and opening will say so
    if damage.is_unexplained and (damage.tables_ahead or not accept):
        raise Damaged("\n".join([f"{path}: the store is damaged", *damage.lines(), remedy(path, damage)]))
    damage.aside = set_aside(path, damage)
    return damage


def remedy(path: str, damage: Damage) -> str:
    """Advise the operator what to do about this damage."""
    if damage.tables_ahead:
        why = "its tables have later changes than what is left of its logs, so " if damage.known else ""
        return (
            f"{why}it can't be used as it is; save what can "
            f"be saved into a new store: taskqueue store repair {path} NEW; or put a backup back: taskqueue store "
            "restore"
        )
    return (
        "to go on without what is lost: taskqueue daemon start --accept-damage, which keeps the damaged logs in "
        f"{free_folder(path)}; to save what can be read behind the damage, too, into a new store: taskqueue store "
        f"repair {path} NEW; or put a backup back: taskqueue store restore"
    )


def set_aside(path: str, damage: Damage) -> str:
    """Truncate the logs of a store that no process has open; return the folder of the original logs.

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
    """Truncate the newest log behind its last whole record, if no process has the store open.

    RocksDB would stop there by itself, but never stops reading some kinds of garbage (rocksdict 0.3.29).
    """
    if _torn_at(path) is None:
        return
    try:
        with exclusive_lock(path):
            # Before the lock was held, another process may have been writing this record.
            if (torn := _torn_at(path)) is not None:
                os.truncate(torn.name, torn.end)
                _sync_file(torn.name)
    except StoreError:
        return  # another process is using it, and opening will say so


class _Torn(NamedTuple):
    """Log with a torn tail, and the byte up to which it can be read."""

    name: str
    end: int


def _torn_at(path: str) -> _Torn | None:
    """Find where the newest log of a store is torn; None if it is whole or absent."""
    with closing(Folder(path)) as folder:
        name = max(filter(LOG.fullmatch, folder.names()), key=number_of, default=None)
        if name is None:
            return None
        with folder.open(name) as file:
            end = read_log(name, file).torn_at
    return None if end is None else _Torn(join(path, name), end)


def free_folder(path: str) -> str:
    """Find the first unused ``damaged-N`` folder of a store."""
    return next(name for n in count(1) if not lexists(name := join(path, f"damaged-{n}")))


def _sync_file(path: str) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


Entry = tuple[int, bytes]
"""Number of a family, and a key."""

_DELETION, _VALUE, _LOG_DATA, _SINGLE_DELETION, _RANGE_DELETION = 0x0, 0x1, 0x3, 0x7, 0xF
_OF_FAMILY: Final = {0x4: _DELETION, 0x5: _VALUE, 0x8: _SINGLE_DELETION, 0xE: _RANGE_DELETION}
"""Tags that are followed by a family number, with the tags that mean the same without one."""

_TWO_PARTS: Final = (_VALUE, _RANGE_DELETION)
_VARINT_MORE: Final = 0x80


def lost_tasks(damage: Damage) -> dict[int, set[str]]:
    """Collect the taskids with changes behind the cut, by project number, from the logs that were set aside."""
    ids = {number for number, name in damage.families.items() if name == layout.IDS}
    lost: dict[int, set[str]] = {}
    for family, key in _puts(damage):
        if family in ids and len(key) > layout.PROJECT_BYTES:
            lost.setdefault(layout.project_of(key), set()).add(key[layout.PROJECT_BYTES :].decode(errors="replace"))
    return lost


def _puts(damage: Damage) -> Iterator[Entry]:
    with closing(Folder(damage.aside)) as folder:
        for name in filter(LOG.fullmatch, folder.names()):
            with folder.open(name) as file:
                for record in records_of(file):
                    if isinstance(record, Record) and len(record.data) >= BATCH.size:
                        yield from _puts_after(record.data, damage.kept)


def _puts_after(data: bytes, kept: int) -> Iterator[Entry]:
    first, count = BATCH.unpack_from(data)
    if first + count - 1 <= kept:
        return
    try:
        yield from puts_of(data)
    except (IndexError, KeyError):
        return  # changes behind an unknown tag can't be named


def puts_of(data: bytes) -> Iterator[Entry]:
    """Yield family and key of the puts in a batch.

    Raises:
        IndexError, KeyError: it has an unknown tag.
    """
    at = BATCH.size
    while at < len(data):
        tag, family = data[at], 0
        at += 1
        if tag in _OF_FAMILY:
            tag = _OF_FAMILY[tag]
            family, at = _varint(data, at)
        if tag not in (_DELETION, _VALUE, _LOG_DATA, _SINGLE_DELETION, _RANGE_DELETION):
            raise KeyError(tag)
        length, at = _varint(data, at)
        key, at = data[at : at + length], at + length
        if tag in _TWO_PARTS:
            length, at = _varint(data, at)
            at += length
        if tag == _VALUE:
            yield family, key


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Decode a number, and return the offset behind it, too."""
    found = shift = 0
    while True:
        byte = data[at]
        at += 1
        found |= (byte & ~_VARINT_MORE) << shift
        if byte < _VARINT_MORE:
            return found, at
        shift += 7


def lost_task_lines(lost: Mapping[int, set[str]], names: Mapping[int, str], most: int) -> Iterator[str]:
    """Describe lost tasks in a line per project: their number and the first taskids.

    Args:
        names: project names by number.
        most: taskids to name per project.
    """
    for number, taskids in sorted(lost.items()):
        some = " ".join(sorted(taskids)[:most])
        more = " …" if len(taskids) > most else ""
        project = names.get(number, f"#{number}")
        yield f"project={project} tasks={len(taskids)}: changes of these are lost: {some}{more}"
