"""Check the files of a store, the first half of ``taskqueue store check``; the second half scans the entries.

Logs and the MANIFEST are read strictly; tables must exist and have the right length. The content of tables is verified
by RocksDB's checksums when the entries are read.
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
    """Find damage of a store's files, even while a daemon uses it; None if no damage is known.

    Raises:
        StoreError: there is no store, or its files are not as RocksDB makes them.
        OSError: they can't be read.
    """
    if lacks_manifest(path):
        return find_damage(path, "")
    if not is_store(path):
        return None
    # The mark is read first, because later writes advance it.
    with closing(Folder(path)) as folder:
        mark = read_mark(folder)
    with closing(FileSnapshot(path)) as snapshot:
        damage = snapshot.damage(mark)
    return damage if damage is not None and damage.is_unexplained else None


def lacks_manifest(path: str) -> bool:
    """Whether there are tables, but no MANIFEST that names them."""
    if not isdir(path):
        return False
    with closing(Folder(path)) as folder:
        try:
            with folder.open(folder.manifest_name()):
                return False
        except FileNotFoundError:
            return any(map(TABLE.fullmatch, folder.names()))


def findings_of(path: str, damage: Damage) -> list[str]:
    """Describe each damaged place with advice in a line, and the loss in another."""
    *lines, loss = damage.lines() if damage.known else [*damage.lines(), ""]
    advice = remedy(path, damage)
    return [f"{line}; {advice}" for line in lines] + ([loss] if loss else [])


def is_damage(error: StoreError) -> bool:
    """Whether RocksDB reports corruption: it read other bytes than it wrote."""
    return "Corruption" in str(error)


def table_finding(path: str, error: StoreError) -> str:
    """Describe a table that RocksDB can't read.

    Args:
        path: folder of the store.
    """
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
