"""Are the files of a store whole? The first half of a check, before its entries are looked at.

Logs and the MANIFEST are read strictly; tables are there, and as long as they should be. What is in a table is read by
RocksDB when the entries are looked at, which finds a flipped byte by its checksum.
"""

from __future__ import annotations

import re
from contextlib import closing
from os.path import isdir
from typing import Final

from taskqueue.errors import StoreError
from taskqueue.store.files.damage import Damage, find_damage
from taskqueue.store.files.file_snapshot import FileSnapshot
from taskqueue.store.files.folder import TABLE, Folder, is_store
from taskqueue.store.files.log_recovery import remedy
from taskqueue.store.files.synced_mark import read_mark

_WHERE: Final = re.compile(r"([0-9]+\.sst)(?: offset ([0-9]+))?")
_REASON: Final = re.compile(r"could not \w+ the store: (.*)", re.DOTALL)


def damage_of(path: str) -> Damage | None:
    """What is damaged in a store, whatever a daemon does with it meanwhile; None: nothing that is known.

    Raises:
        StoreError: there is no store, or its files are not as RocksDB makes them.
        OSError: they can't be read.
    """
    if lacks_manifest(path):
        return find_damage(path, "")
    if not is_store(path):
        return None
    # The mark first: what is then written moves it on.
    with closing(Folder(path)) as folder:
        mark = read_mark(folder)
    with closing(FileSnapshot(path)) as snapshot:
        damage = snapshot.damage(mark)
    return damage if damage is not None and damage.is_unexplained else None


def lacks_manifest(path: str) -> bool:
    """There are tables, but not what names them."""
    if not isdir(path):
        return False
    with closing(Folder(path)) as folder:
        try:
            with folder.open(folder.manifest_name()):
                return False
        except FileNotFoundError:
            return any(map(TABLE.fullmatch, folder.names()))


def findings_of(path: str, damage: Damage) -> list[str]:
    """A line for each place that is damaged, and what to do."""
    *lines, loss = damage.lines() if damage.known else [*damage.lines(), ""]
    advice = remedy(path, damage)
    return [f"{line}; {advice}" for line in lines] + ([loss] if loss else [])


def is_damage(error: StoreError) -> bool:
    """RocksDB says that what it has read is not what was written."""
    return "Corruption" in str(error)


def table_finding(path: str, error: StoreError) -> str:
    """The line for a table that RocksDB can't read; path is that of the store."""
    said = str(error)
    found, reason = _WHERE.search(said), _REASON.search(said)
    short = " ".join((reason.group(1) if reason else said).split())
    if found is None:
        return f"{short}; {_advice(path)}"
    where = f", at byte {int(found.group(2)):,}" if found.group(2) else ""
    what = "a block whose checksum does not match" if "checksum mismatch" in said else short
    return f"{found.group(1)}{where}: {what}; {_advice(path)}"


def _advice(path: str) -> str:
    return (
        f"save what can be saved into a new store: taskqueue store repair {path} NEW; or put a backup back: taskqueue "
        "store restore"
    )
