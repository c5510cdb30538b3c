"""Power cuts: leave in the folder of a killed process what a disk might have kept, by its syncs.

1. Bytes of a file that a sync covered are kept. Of bytes appended since, any part may be kept, any of that as zeros or
   as garbage; of overwritten bytes, the first writes may have been made.
2. Names that a sync of the folder covered are kept. Of later changes of names, the first ones may have been made,
   because file systems journal them in order.
3. Bytes that a failed sync should have covered may be lost for good, even if a later sync of the file works: the kernel
   has dropped them and forgets that it did.

The shim's record has the syncs; files that have lost their names are in its graves.
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
"""Bytes behind the end of a log that were never written, at most."""

Names = dict[str, int]
"""Inodes by names."""


@dataclass
class _File:
    """State of a file.

    Attributes:
        synced: bytes of it that are safe.
        lost: (start, end) of ranges that failed syncs should have covered.
        content: whole content, if parts of it were overwritten; None if it was only appended to.
        safe_content: content at the last sync, likewise.
    """

    synced: int = 0
    lost: list[tuple[int, int]] = field(default_factory=list)
    content: bytearray | None = None
    safe_content: bytes = b""
    over: list[tuple[int, bytes]] = field(default_factory=list)


class Cut(NamedTuple):
    """Losses of a power cut.

    Attributes:
        bytes: bytes that were written and not synced, or made of garbage.
        names: changes of names.
    """

    bytes: int
    names: int


class Least(Random):
    """Replacement of chance: a disk that has kept nothing unsynced, except for garbage behind a log."""

    def choice(self, seq: SupportsLenAndGetItem[T]) -> T:
        return seq[0]


class Power:
    """Power of a store's disk."""

    def __init__(self, shim: Shim) -> None:
        """Record that everything in the store's folder is safe now."""
        self._shim = shim
        self._note()

    def cut(self, chance: Random) -> Cut:
        """Leave in the store's folder what the disk might have kept; the process that used it must have been killed."""
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
        """Return files by inode, the safe names, and later changes of names."""
        files = {inode: _File(size) for inode, size in self._sizes.items()}
        names = dict(self._names)
        changes: list[Event] = []
        covering: dict[int, int] = {}  # by the syncing thread: bytes of a file
        journaling: dict[int, int] = {}  # by the thread that syncs the folder: changes of names
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
        """Make the folder anew with these names; return the number of lost bytes."""
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
    """Note that the file has at most this size; bytes written behind it later are new."""
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
    """Remove from a file what the disk need not have kept; return the number of bytes."""
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
