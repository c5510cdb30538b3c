"""Names the tasks that lost changes when a damaged log was cut, as far as the cut logs can still be read.

A record of a log is a batch: number and count of its changes, then the changes, each a tag, a family, a key and, unless
it deletes, a value (https://github.com/facebook/rocksdb/blob/main/db/write_batch.cc). Only puts into ``ids`` are looked
at: every change of a task but its hand-out includes one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Final

from taskqueue.store.files.damage import Damage
from taskqueue.store.files.folder import LOG, Folder
from taskqueue.store.files.log_records import Record, records_of
from taskqueue.store.files.write_log import BATCH
from taskqueue.store.records import layout

Entry = tuple[int, bytes]
"""A family's number, and a key."""

_DELETION, _VALUE, _LOG_DATA, _SINGLE_DELETION, _RANGE_DELETION = 0x0, 0x1, 0x3, 0x7, 0xF
_OF_FAMILY: Final = {0x4: _DELETION, 0x5: _VALUE, 0x8: _SINGLE_DELETION, 0xE: _RANGE_DELETION}
"""Tags that are followed by a family number, and the tags without one that they otherwise equal."""

_TWO_PARTS: Final = (_VALUE, _RANGE_DELETION)
_VARINT_MORE: Final = 0x80


def lost_tasks(damage: Damage) -> dict[int, set[str]]:
    """By project number, the taskids with changes after the cut, in the logs that were set aside."""
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
        return  # what is not known here can't be told of


def puts_of(data: bytes) -> Iterator[Entry]:
    """Family and key of the puts in a batch.

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
    """A number, and the offset behind it."""
    found = shift = 0
    while True:
        byte = data[at]
        at += 1
        found |= (byte & ~_VARINT_MORE) << shift
        if byte < _VARINT_MORE:
            return found, at
        shift += 7


def lines(lost: Mapping[int, set[str]], names: Mapping[int, str], most: int) -> Iterator[str]:
    """For people: per project the number of lost tasks, and the first ones.

    Args:
        names: of projects, by number.
        most: taskids to name per project.
    """
    for number, taskids in sorted(lost.items()):
        some = " ".join(sorted(taskids)[:most])
        more = " …" if len(taskids) > most else ""
        project = names.get(number, f"#{number}")
        yield f"project={project} tasks={len(taskids)}: changes of these are lost: {some}{more}"
