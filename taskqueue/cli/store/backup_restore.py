"""``taskqueue store backup``, ``restore`` and ``compact``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from os.path import abspath, basename, dirname, exists
from tempfile import NamedTemporaryFile
from typing import IO

import click

from taskqueue.cli.store.export_import import format_of, write_export
from taskqueue.cli.store.opening import open_snapshot, refuse_database
from taskqueue.cli.store.target import StoreTarget, progress_bar, store_options
from taskqueue.display.counts import tasks
from taskqueue.terminal.lines import say
from taskqueue.units import size_text


@click.command()
@click.argument("place", metavar="DIR", type=click.Path())
@store_options
def backup(target: StoreTarget, place: str) -> None:
    """Copy a store to a folder, which must be empty or not be there yet. The daemon may go on meanwhile.

    Everything that was acknowledged before the command began is in the copy. It is there whole or not at all. On the
    same file system it costs almost no time and space, because files that never change are linked, not copied: then
    it protects from mistakes, not from a broken disk.

    A store in a database is best backed up with its database, such as by pg_dump, which has everything. Here it is
    exported, as it was when the command began, to a file DIR, which must not be there yet: how tasks ran, leases and
    operations stay behind, and `taskqueue store import DIR` brings it into any store.

    \b
    Example:
      taskqueue store backup /backups/monday -c taskqueue.toml
      taskqueue store backup monday.msgpack --store postgresql://db.example/crawl
    """
    if target.url:
        _export_database(target, place)
    else:
        _copy_folder(target, place)


def _export_database(target: StoreTarget, file: str) -> None:
    from taskqueue.store.tools.store_stats import read_database_stats

    refuse_database("backup", "name a file for the export", file)
    with closing(open_snapshot(target)) as reader, _new_file(file) as output:
        write_export(reader, output, format_of(file))
        figures = read_database_stats(reader)
    size = size_text(os.stat(file).st_size)
    say(
        f"{file}: {tasks(figures.tasks)}, {size}, an export of {figures.path}, "
        "which `taskqueue store import` brings into any store"
    )
    say("How tasks ran, leases and operations are not in it; a backup of the database, such as by pg_dump, has them.")


@contextmanager
def _new_file(name: str) -> Iterator[IO[bytes]]:
    """A file that gets its name when it is whole, and must not be there yet."""
    if exists(name):
        raise click.ClickException(f"{name}: is there already; an export needs a file of its own")
    with NamedTemporaryFile(prefix=f"{basename(name)}.partial-", dir=dirname(abspath(name)), delete=False) as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.rename(file.name, name)
        except BaseException:
            os.unlink(file.name)
            raise


def _copy_folder(target: StoreTarget, folder: str) -> None:
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
    """Put a backup in the place of the store, in a folder. The daemon must be stopped; the backup stays as it is.

    What was done since the backup is forgotten, as far as the scheduler is concerned: tasks run again, and fetchers'
    answers for what they were given since are stale. The store skips 1,024 epochs, so that no token is given twice,
    even if the store that was lost has been started so often since. Don't start what was replaced beside it.

    \b
    Example:
      taskqueue store restore /backups/monday
      taskqueue store restore /backups/monday --replace -c taskqueue.toml
    """
    from taskqueue.store.tools import backup

    refuse_database(
        "restore",
        "restore the database by its own means, such as pg_restore, and have it skip epochs as docs/operations.md "
        "says, or bring an export into an empty schema by `taskqueue store import FILE`",
        target.url, copy,
    )  # fmt: skip
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

    refuse_database(
        "compact",
        "it removes dead rows by itself; `vacuum full` on the tables of its schema gives their room back at once",
        target.url,
    )
    before = _file_bytes(target.path)  # which also sees that there is a store, because opening one would make it
    with closing(RocksStore(target.path, cache_bytes=target.cache_bytes)) as store, progress_bar("compacting"):
        store.compact()
    say(f"{target.path}: {size_text(before)} before, {size_text(_file_bytes(target.path))} now")


def _file_bytes(path: str) -> int:
    from taskqueue.store.files.file_snapshot import FileSnapshot

    with closing(FileSnapshot(path)) as snapshot:
        return snapshot.file_bytes


def _free(name: str) -> str:
    return name if not exists(name) else next(other for n in count(2) if not exists(other := f"{name}-{n}"))
