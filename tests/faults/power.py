"""Power cuts: of a folder whose user was killed, what a disk might have kept, by what was really synced.

1. Bytes of a file that a sync covered are kept. Of what was appended since, any part may be there, any of that as
   zeros or as garbage; of what was written over since, the first writes may have been made.
2. Names that a sync of the folder covered are kept. Of those that were made, changed and deleted since, the first ones
   may have been, because file systems journal them in their order.
3. What a failed sync was to cover may be lost for good, even if a later one of the same file works: the kernel has
   dropped it and forgets that it did.

The record of a shim says what was synced; files that have lost their names are in its graves.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from tests.faults.record import Event, events
from tests.faults.shim import Shim

if TYPE_CHECKING:
    from _typeshed import SupportsLenAndGetItem

T = TypeVar("T")

GARBAGE_MOST: Final = 500
"""Bytes behind the end of a log that were never written."""

Names = dict[str, int]
"""Inodes by names."""


@dataclass
class _File:
    """What is known of one.

    Attributes:
        synced: so many bytes of it are safe.
        lost: (start, end) of what failed syncs were to cover.
        content: all of it, if parts of it were written over; None: it was only appended to.
        safe_content: of that, as it was at the last sync.
    """

    synced: int = 0
    lost: list[tuple[int, int]] = field(default_factory=list)
    content: bytearray | None = None
    safe_content: bytes = b""
    over: list[tuple[int, bytes]] = field(default_factory=list)


class Cut(NamedTuple):
    """What a power cut took.

    Attributes:
        bytes: that were written and not synced, or made of garbage.
        names: changes of names.
    """

    bytes: int
    names: int


class Least(Random):
    """In the place of chance: a disk that has kept of what was not synced nothing, but for garbage behind a log."""

    def choice(self, seq: SupportsLenAndGetItem[T]) -> T:
        return seq[0]


class Power:
    """Of the disk that a store lies on."""

    def __init__(self, shim: Shim) -> None:
        """Everything that is in the store's folder now is taken to be safe."""
        self._shim = shim
        self._note()

    def cut(self, chance: Random) -> Cut:
        """Leave in the store's folder what the disk might have kept; whoever used it must have been killed."""
        files, names, changes = self._played()
        kept = chance.choice([0, len(changes), chance.randint(0, len(changes))])
        for change in changes[:kept]:
            _apply(names, change)
        took = self._rebuild(names, files, chance)
        shutil.rmtree(self._shim.graves)
        self._shim.graves.mkdir()
        self._shim.record.unlink(missing_ok=True)
        self._note()
        return Cut(took, len(changes) - kept)

    def _note(self) -> None:
        found = list(self._shim.store.iterdir()) if self._shim.store.exists() else []
        self._names = {path.name: path.stat().st_ino for path in found if path.is_file()}
        self._sizes = {path.stat().st_ino: path.stat().st_size for path in found}
        self._contents = {path.stat().st_ino: path.read_bytes() for path in found if path.stat().st_size <= 4096}

    def _played(self) -> tuple[dict[int, _File], Names, list[Event]]:
        """Files by inode, the names that are safe, and the changes of names since."""
        files = {inode: _File(size) for inode, size in self._sizes.items()}
        names = dict(self._names)
        changes: list[Event] = []
        covering: dict[int, int] = {}  # by the thread whose sync is under way: bytes of a file
        journaling: dict[int, int] = {}  # by that of one of the folder: changes of names
        for each in events(self._shim.record):
            file = files.setdefault(each.inode, _File())
            if each.call == "sync-folder" and not each.ended:
                journaling[each.thread] = len(changes)
            elif each.call == "sync-folder":
                count = journaling.pop(each.thread)
                if not each.error:
                    for change in changes[:count]:
                        _apply(names, change)
                    del changes[:count]
                    journaling = {thread: max(0, other - count) for thread, other in journaling.items()}
            elif each.call == "sync" and not each.ended:
                covering[each.thread] = each.result
            elif each.call == "sync":
                _sync(file, covering.pop(each.thread), each.error)
            elif each.error:
                continue
            elif each.call in ("rename", "unlink") or (each.call == "open" and each.result):
                changes.append(each)
            elif each.call in ("open", "truncate"):
                _shrink(file, each.offset)
            elif each.call == "pwrite":
                if file.content is None:
                    file.safe_content = self._contents.get(each.inode, b"")
                    file.content = bytearray(file.safe_content)
                file.over.append((each.offset, each.bytes))
                _lay(file.content, each.offset, each.bytes)
        return files, names, changes

    def _rebuild(self, names: Names, files: dict[int, _File], chance: Random) -> int:
        """Make the folder anew with these names; returns the bytes that are gone."""
        store = self._shim.store
        places = {path.stat().st_ino: path for folder in (store, self._shim.graves) for path in _files(folder)}
        after = store.with_name("after-the-cut")
        after.mkdir()
        took = 0
        for name, inode in names.items():
            if inode in places:
                os.link(places[inode], after / name)
                took += _spoil(after / name, files.get(inode, _File()), chance)
        shutil.rmtree(store)
        after.rename(store)
        return took


def _files(folder: Path) -> Iterable[Path]:
    return (path for path in folder.iterdir() if path.is_file())


def _apply(names: Names, change: Event) -> None:
    if change.call == "open":
        names[change.name] = change.inode
    elif change.call == "unlink":
        names.pop(change.name, None)
    else:
        old, new = change.name.split("/")
        if old in names:
            names[new] = names.pop(old)


def _shrink(file: _File, size: int) -> None:
    """It has at most so many bytes now; what is written behind them from now on is another matter."""
    file.synced = min(file.synced, size)
    file.lost = [(start, min(end, size)) for start, end in file.lost if start < size]


def _sync(file: _File, size: int, error: int) -> None:
    if error:
        file.lost.append((file.synced, size))
        return
    file.synced = max(file.synced, size)
    if file.content is not None:
        file.safe_content = bytes(file.content)
        file.over.clear()


def _lay(content: bytearray, offset: int, piece: bytes) -> None:
    content.extend(bytes(max(0, offset + len(piece) - len(content))))
    content[offset : offset + len(piece)] = piece


def _spoil(path: Path, file: _File, chance: Random) -> int:
    """Take from a file what need not have been kept; returns how many bytes."""
    if file.content is not None:
        content = bytearray(file.safe_content)
        for offset, piece in file.over[: chance.choice([0, len(file.over), chance.randint(0, len(file.over))])]:
            _lay(content, offset, piece)
        path.write_bytes(content)
        return 0
    size = path.stat().st_size
    kept = chance.choice([file.synced, size, chance.randint(min(file.synced, size), size)])
    good = chance.choice([kept, chance.randint(min(file.synced, kept), kept)])
    tail = kept - good
    if path.suffix == ".log" and chance.random() < 0.3:
        tail += chance.randint(1, GARBAGE_MOST)
    with path.open("r+b") as handle:
        handle.truncate(good)
        handle.seek(good)
        handle.write(chance.randbytes(tail) if chance.random() < 0.5 else bytes(tail))
        for start, end in file.lost:
            if chance.random() < 0.5:
                handle.seek(start)
                handle.write(bytes(max(0, min(end, good) - start)))
    return size - good
