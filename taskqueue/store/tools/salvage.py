"""Copy a damaged store without the damaged parts, so that RocksDB can open it.

    tables   intact ones, hard-linked where possible; the others are removed from the MANIFEST
    MANIFEST if it is damaged or gone, RocksDB makes one from the existing tables
    logs     written anew with every readable batch, also behind gaps; conflicts are resolved later, task by task.
             RocksDB itself can't do this: if a batch lacks a part in its middle, it joins the others and fails

The store itself is never opened or changed, only the copy.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import closing, suppress
from io import BytesIO
from os.path import join
from typing import BinaryIO, Final

from rocksdict import Cache, DBRecoveryMode, Rdict

from taskqueue.errors import StoreError
from taskqueue.store.files.damage import TABLE_END, number_of
from taskqueue.store.files.file_snapshot import copy_file, is_ours, link_file
from taskqueue.store.files.folder import CURRENT, LOG, MANIFEST, TABLE, Folder
from taskqueue.store.files.log_records import Record, record_bytes, records_of
from taskqueue.store.files.manifest import Manifest, read_manifest, with_families, without_tables
from taskqueue.store.files.write_log import BATCH
from taskqueue.store.rocksdb import engine, tuning

CACHE_BYTES: Final = 64 << 20
ALL_FILES: Final = -1
"""Value of max_open_files that means no limit."""
_TABLE_SAID: Final = re.compile(r"([0-9]+)\.sst")

Lost = Callable[[str], object]
"""Function that is called with a line for each loss."""


def copy_readable(path: str, work: str, lost: Lost, *, has_manifest: bool) -> None:
    """Make a store in an empty folder from the readable parts of another one.

    Args:
        has_manifest: the MANIFEST is not known to be damaged.

    Raises:
        StoreError: nothing can be read.
        OSError: a file could not be copied.
    """
    with closing(Folder(path)) as folder:
        names = folder.names()
        found = _manifest(folder, names) if has_manifest else None
        for name in names:
            if TABLE.fullmatch(name):
                with folder.open(name) as file:
                    if not (is_ours(file) and link_file(file, join(work, name))):
                        copy_file(file, join(work, name))
        if found is None:
            lost("the MANIFEST: a new one is made from the existing tables")
            _make_manifest(folder, names, work)
        else:
            _put_manifest(work, *found, lost)
        for name in filter(LOG.fullmatch, names):
            with folder.open(name) as file:
                _put_readable_batches(file, join(work, name))
    _replay(work, lost)


def _put_readable_batches(log: BinaryIO, path: str) -> None:
    size = 0
    with open(path, "xb") as file:
        for record in records_of(log):
            if isinstance(record, Record) and len(record.data) >= BATCH.size:
                size += file.write(record_bytes(record.data, size))


def _manifest(folder: Folder, names: list[str]) -> tuple[str, bytes, Manifest] | None:
    """Read the MANIFEST that CURRENT names, or the newest; None if it is damaged, or lacks existing tables."""
    named = max(filter(MANIFEST.fullmatch, names), default="", key=lambda name: int(name.partition("-")[2]))
    with suppress(OSError, StoreError):
        named = folder.manifest_name()
    with suppress(OSError, StoreError), folder.open(named) as file:
        content = file.read()
        manifest = read_manifest(named, BytesIO(content))
        newest = max((number_of(name) for name in names if TABLE.fullmatch(name)), default=0)
        known = max((number for _, number in manifest.tables), default=0)
        logs = [number_of(name) for name in names if LOG.fullmatch(name)]
        # The MANIFEST lacks tables beyond logs that it needs and that are gone: it was cut.
        was_cut = newest > known and min(logs, default=newest) > max(manifest.log_numbers.values(), default=0)
        return None if manifest.flaw is not None or was_cut else (named, content, manifest)
    return None


def _make_manifest(folder: Folder, names: list[str], work: str) -> None:
    with engine.translated_errors(work, "repair"):
        Rdict.repair(work, tuning.database())
    families: dict[int, str] = {}
    for name in filter(MANIFEST.fullmatch, names):
        with suppress(OSError, StoreError), folder.open(name) as file:
            families |= read_manifest(name, file).families
    name, content, manifest = _of(work)
    # Logs refer to families by number, and RocksDB finds only families that have tables.
    new = {number: family for number, family in families.items() if number not in manifest.families}
    _put(join(work, name), with_families(content, new))


def _put_manifest(work: str, name: str, content: bytes, manifest: Manifest, lost: Lost) -> None:
    gone = []
    for place, table in manifest.tables.items():
        file = f"{place[1]:06d}{TABLE_END}"
        with suppress(FileNotFoundError):
            if os.stat(join(work, file)).st_size == table.file_bytes:
                continue
        lost(f"{file}: a table of {manifest.families.get(place[0], '?')} that is missing or was cut")
        gone.append(place)
    _put(join(work, name), without_tables(content, manifest, gone))
    _put(join(work, CURRENT), f"{name}\n".encode())


def _replay(work: str, lost: Lost) -> None:
    """Flush everything readable in the logs into tables."""
    while True:
        try:
            db = _opened(work)
        except StoreError as error:
            _leave_out(work, error, lost)
            continue
        try:
            with engine.translated_errors(work, "repair"):
                for family in Rdict.list_cf(work):
                    db.get_column_family(family).flush()
        finally:
            db.close()
        return


def _opened(work: str) -> Rdict:
    cache = Cache(CACHE_BYTES)
    options = tuning.database()
    options.set_wal_recovery_mode(DBRecoveryMode.skip_any_corrupted_record())
    # Open all tables now, to find those that can't be opened.
    options.set_max_open_files(ALL_FILES)
    with engine.translated_errors(work, "open"):
        return Rdict(work, options, {name: tuning.for_family(name, cache) for name in Rdict.list_cf(work)})


def _leave_out(work: str, error: StoreError, lost: Lost) -> None:
    """Remove the table that prevents the copy from being opened."""
    said = [int(number) for number in _TABLE_SAID.findall(str(error))]
    name, content, manifest = _of(work)
    places = [place for place in manifest.tables if place[1] in said]
    if not places:
        raise error
    for place in places:
        lost(f"{place[1]:06d}{TABLE_END}: a table of {manifest.families.get(place[0], '?')} that can't be opened")
    _put(join(work, name), without_tables(content, manifest, places))


def _of(work: str) -> tuple[str, bytes, Manifest]:
    with closing(Folder(work)) as folder:
        name = folder.manifest_name()
        with folder.open(name) as file:
            content = file.read()
    return name, content, read_manifest(name, BytesIO(content))


def _put(path: str, content: bytes) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)
    with open(path, "xb") as file:
        file.write(content)
