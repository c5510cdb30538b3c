"""``taskqueue store backup``, ``restore`` and ``compact``."""

from __future__ import annotations

from contextlib import closing
from itertools import count
from os.path import exists

import click

from taskqueue.cli.store.target import StoreTarget, progress_bar, store_options
from taskqueue.display.counts import tasks
from taskqueue.terminal.lines import say
from taskqueue.units import size_text


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path())
@store_options
def backup(target: StoreTarget, folder: str) -> None:
    """Copy a store to a folder, which must be empty or not be there yet. The daemon may go on meanwhile.

    Everything that was acknowledged before the command began is in the copy. It is there whole or not at all. On the
    same file system it costs almost no time and space, because files that never change are linked, not copied: then
    it protects from mistakes, not from a broken disk.

    \b
    Example:
      taskqueue store backup /backups/monday -c taskqueue.toml
    """
    from taskqueue.store.rocksdb.read_only import ReadOnlyStore
    from taskqueue.store.tools.backup import back_up
    from taskqueue.store.tools.store_stats import read_stats

    with progress_bar("copying"):
        copied = back_up(target.path, folder)
    with closing(ReadOnlyStore(folder)) as reader:
        figures = read_stats(reader, target.cache_bytes)
    say(f"{folder}: {tasks(figures.tasks)}, {size_text(copied)}, epoch {figures.epoch}")


@click.command()
@click.argument("copy", metavar="BACKUP", type=click.Path())
@click.option("--replace", is_flag=True, help="Move the store that is there aside, to DIR.replaced.")
@store_options
def restore(target: StoreTarget, copy: str, replace: bool) -> None:
    """Put a backup in the place of the store. The daemon must be stopped; the backup stays as it is.

    What was done since the backup is forgotten, as far as the scheduler is concerned: tasks run again, and fetchers'
    answers for what they were given since are stale. The store skips 1,024 epochs, so that no token is given twice,
    even if the store that was lost has been started so often since. Don't start what was replaced beside it.

    \b
    Example:
      taskqueue store restore /backups/monday
      taskqueue store restore /backups/monday --replace -c taskqueue.toml
    """
    from taskqueue.store.tools import backup

    aside = _free(f"{target.path}.replaced") if replace else None
    moves = aside is not None and exists(target.path)
    epoch = backup.restore(copy, target.path, aside)
    say(f"{target.path}: restored from {copy}; its next epoch is {epoch + 1}")
    if moves:
        say(f"{aside}: the store that was there")


@click.command()
@store_options
def compact(target: StoreTarget) -> None:
    """Merge all of a store's tables, without what was written over or deleted. The daemon must be stopped.

    RocksDB does this by itself, little by little; the command does it at once, after very many tasks were dropped. It
    needs as much free space as the store has, for a while.

    \b
    Example:
      taskqueue store compact -c taskqueue.toml
    """
    from taskqueue.store.rocksdb.rocks_store import RocksStore

    before = _file_bytes(target.path)  # which also sees that there is a store, because opening one would make it
    with closing(RocksStore(target.path, cache_bytes=target.cache_bytes)) as store, progress_bar("compacting"):
        store.compact()
    say(f"{target.path}: {size_text(before)} before, {size_text(_file_bytes(target.path))} now")


def _file_bytes(path: str) -> int:
    from taskqueue.store.files.file_snapshot import FileSnapshot

    with closing(FileSnapshot(path)) as snapshot:
        return snapshot.file_bytes


def _free(name: str) -> str:
    """The name, or the first unused one of the form NAME-2."""
    return name if not exists(name) else next(other for n in count(2) if not exists(other := f"{name}-{n}"))
