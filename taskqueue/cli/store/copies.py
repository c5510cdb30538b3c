"""``taskqueue store backup``, ``restore`` and ``compact``."""

from __future__ import annotations

from contextlib import closing
from itertools import count
from os.path import exists

import click

from taskqueue.cli.input.confirmation import tasks
from taskqueue.cli.store.place import Place, moving, names_store, size
from taskqueue.terminal.lines import say


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path())
@names_store
def backup(place: Place, folder: str) -> None:
    """Copy a store to a folder, which must be empty or not be there yet. The daemon may go on meanwhile.

    Everything that was acknowledged before the command began is in the copy. It is there whole or not at all. On the
    same file system it costs almost no time and space, because files that never change are linked, not copied: then
    it protects from mistakes, not from a broken disk.

    \b
    Example:
      taskqueue store backup /backups/monday -c taskqueue.toml
    """
    from taskqueue.store.rocksdb.read_only import ReadOnlyStore
    from taskqueue.store.tools.copying import back_up
    from taskqueue.store.tools.figures import figures_of

    with moving("copying"):
        copied = back_up(place.path, folder)
    with closing(ReadOnlyStore(folder)) as still:
        figures = figures_of(still, place.cache_bytes)
    say(f"{folder}: {tasks(figures.tasks)}, {size(copied)}, epoch {figures.epoch}")


@click.command()
@click.argument("copy", metavar="BACKUP", type=click.Path())
@click.option("--replace", is_flag=True, help="Move the store that is there aside, to DIR.replaced.")
@names_store
def restore(place: Place, copy: str, replace: bool) -> None:
    """Put a backup in the place of the store. The daemon must be stopped; the backup stays as it is.

    What was done since the backup is forgotten, as far as the scheduler is concerned: tasks run again, and fetchers'
    answers for what they were given since are stale. The store skips 1,024 epochs, so that no token is given twice,
    even if the store that was lost has been started so often since. Don't start what was replaced beside it.

    \b
    Example:
      taskqueue store restore /backups/monday
      taskqueue store restore /backups/monday --replace -c taskqueue.toml
    """
    from taskqueue.store.tools import copying

    aside = _free(f"{place.path}.replaced") if replace else None
    moves = aside is not None and exists(place.path)
    epoch = copying.restore(copy, place.path, aside)
    say(f"{place.path}: restored from {copy}; its next epoch is {epoch + 1}")
    if moves:
        say(f"{aside}: the store that was there")


@click.command()
@names_store
def compact(place: Place) -> None:
    """Merge all of a store's tables, without what was written over or deleted. The daemon must be stopped.

    RocksDB does this by itself, little by little; the command does it at once, after very many tasks were dropped. It
    needs as much free space as the store has, for a while.

    \b
    Example:
      taskqueue store compact -c taskqueue.toml
    """
    from taskqueue.store.rocksdb.rocks import RocksStore

    before = _file_bytes(place.path)  # which also sees that there is a store, because opening one would make it
    with closing(RocksStore(place.path, cache_bytes=place.cache_bytes)) as store, moving("compacting"):
        store.compact()
    say(f"{place.path}: {size(before)} before, {size(_file_bytes(place.path))} now")


def _file_bytes(path: str) -> int:
    from taskqueue.store.files.file_snapshot import FileSnapshot

    with closing(FileSnapshot(path)) as image:
        return image.file_bytes


def _free(name: str) -> str:
    """The name, or the first one like it that nothing has."""
    return name if not exists(name) else next(other for n in count(2) if not exists(other := f"{name}-{n}"))
