"""Options that name the store of a command, and functions that open it, in a folder or in a database.

Commands that a folder or a database can't support are refused. Their progress bar is here, too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import click

if TYPE_CHECKING:
    from taskqueue.store.damaged_rows import DamagedRows
    from taskqueue.store.postgres.postgres_snapshot import DatabaseSnapshot
    from taskqueue.store.postgres.postgres_store import PostgresStore
    from taskqueue.store.postgres.session import Target
    from taskqueue.store.rocksdb.rocks_snapshot import ReadOnlyStore
    from taskqueue.store.rocksdb.rocks_store import RocksStore


T = TypeVar("T")

Progress = Callable[[int], object]


class StoreTarget(NamedTuple):
    """Store as named by options and the daemon's config.

    Attributes:
        path: its folder, unless ``url`` names a database.
        cache_bytes, message_bytes: cache and longest message of its daemon.
        url, schema, timeout: as in the config; the URL may contain a password and another schema.
    """

    path: str
    cache_bytes: int
    message_bytes: int
    url: str
    schema: str
    timeout: float


config_option: Final = click.option(
    "-c", "--config", metavar="FILE", type=click.Path(), envvar="TASKQUEUE_CONFIG", help="Config file of the daemon."
)


def store_options(command: Callable[..., T]) -> Callable[..., T]:
    """Add the options --config and --store to a command, which gets the ``target`` that they name."""

    @config_option
    @click.option(
        "--store",
        metavar="DIR|URL",
        type=click.Path(),
        help="Folder of the store, or postgresql://… (?schema=NAME).",
    )
    @wraps(command)
    def with_place(*args: object, config: str | None, store: str | None, **options: object) -> T:
        return command(*args, target=_target(config, store), **options)

    return with_place


def store_argument(command: Callable[..., T]) -> Callable[..., T]:
    """Add --config and the argument [STORE] to a command, which gets the ``target`` that they name."""

    @click.argument("store", metavar="[STORE]", required=False, type=click.Path())
    @config_option
    @wraps(command)
    def with_place(*args: object, config: str | None, store: str | None, **options: object) -> T:
        return command(*args, target=_target(config, store), **options)

    return with_place


def named_store(place: str) -> StoreTarget:
    """Target for a folder or database, with all else from the environment."""
    return _target(os.environ.get("TASKQUEUE_CONFIG"), place)


def _target(config: str | None, store: str | None) -> StoreTarget:
    from taskqueue.server.config import load, with_environment

    found = with_environment(load(config), os.environ)
    said = found.store
    path, url = said.path, said.url
    if store:
        path, url = (path, store) if names_database(store) else (store, "")
    return StoreTarget(path, said.cache, found.daemon.max_message, url, said.schema, said.timeout)


def names_database(place: str) -> bool:
    """Whether the place is the URL of a database rather than a folder or file."""
    from taskqueue.server.config import DATABASE_SCHEMES

    return place.startswith(DATABASE_SCHEMES)


@contextmanager
def progress_bar(what: str, total: int | None = None) -> Iterator[Progress]:
    """Show a progress bar if stderr is a terminal; yields a function to call with the number done."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    from taskqueue.terminal.screen import Screen

    columns = (TextColumn(what), BarColumn(), TextColumn("{task.completed:,}"), TimeElapsedColumn())
    with Bar(*columns, console=Screen(err=True), transient=True) as bar:
        row = bar.add_task("", total=total)
        yield lambda done: bar.update(row, completed=done, total=None if total is None else max(total, done))


def open_reader(target: StoreTarget) -> ReadOnlyStore | DatabaseSnapshot:
    """Open a read-only view of the store as it is now.

    Raises:
        ConfigError: the URL is wrong, or what it takes to reach a database is not installed.
        StoreError: there is no store, or it can't be read.
    """
    if target.url:
        return open_snapshot(target)
    from taskqueue.store.rocksdb.rocks_snapshot import ReadOnlyStore

    return ReadOnlyStore(target.path)


def open_snapshot(target: StoreTarget, damaged: DamagedRows | None = None) -> DatabaseSnapshot:
    """Open a read-only view of a database, which skips damaged rows if it can record them; raises the same errors."""
    database = database_of(target)
    from taskqueue.store.postgres.postgres_snapshot import DatabaseSnapshot

    return DatabaseSnapshot(database, damaged)


def open_store(target: StoreTarget) -> RocksStore | PostgresStore:
    """Open the store for writing; make it if it is absent.

    Raises:
        ConfigError: the URL is wrong, or what it takes to reach a database is not installed.
        StoreError: it can't be opened, or a daemon has it open.
    """
    if target.url:
        database = database_of(target)
        from taskqueue.store.postgres.fence import refuse_second_writer
        from taskqueue.store.postgres.postgres_store import PostgresStore

        refuse_second_writer(database)
        return PostgresStore(database)
    from taskqueue.store.rocksdb.rocks_store import RocksStore

    return RocksStore(target.path, cache_bytes=target.cache_bytes)


def make_if_absent(target: StoreTarget) -> bool:
    """Make a store if there is none, and return whether there was none.

    Raises:
        ConfigError: the URL is wrong, or what it takes to reach a database is not installed.
        StoreError: it can't be made.
    """
    if target.url:
        database = database_of(target)
        from taskqueue.store.postgres.tables import make_tables

        return make_tables(database)
    from taskqueue.store.files.folder import is_store

    return not is_store(target.path)


def database_of(target: StoreTarget) -> Target:
    """Parse the URL of the database.

    Raises:
        ConfigError: the URL is wrong, or what it takes to reach a database is not installed.
    """
    from taskqueue.server.store_opener import database_target

    return database_target(target.url, target.schema, target.timeout)


def where(target: StoreTarget) -> str:
    """Name of the folder or database for messages, without a password."""
    return database_of(target).where if target.url else target.path


def refuse_database(command: str, instead: str, *places: str) -> None:
    """Refuse a command that works on folders only.

    Args:
        instead: what the operator can do.
        places: folders; a URL of a database among them is refused.

    Raises:
        click.ClickException: a place is the URL of a database.
    """
    if any(map(names_database, places)):
        raise click.ClickException(
            f"store {command} is for stores in folders, and this one is in a database; {instead}"
        )
