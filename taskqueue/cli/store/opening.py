"""Opens the store that the options name, in a folder or in a database, and refuses what one of them can't have done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from taskqueue.cli.store.target import StoreTarget, names_database

if TYPE_CHECKING:
    from taskqueue.store.damaged_rows import DamagedRows
    from taskqueue.store.postgres.database_snapshot import DatabaseSnapshot
    from taskqueue.store.postgres.postgres_store import PostgresStore
    from taskqueue.store.postgres.target import Target
    from taskqueue.store.rocksdb.read_only import ReadOnlyStore
    from taskqueue.store.rocksdb.rocks_store import RocksStore


def open_reader(target: StoreTarget) -> ReadOnlyStore | DatabaseSnapshot:
    """A view of the store at this moment.

    Raises:
        ConfigError: the url is wrong, or what it takes to reach a database is not installed.
        StoreError: there is no store, or it can't be read.
    """
    if target.url:
        return open_snapshot(target)
    from taskqueue.store.rocksdb.read_only import ReadOnlyStore

    return ReadOnlyStore(target.path)


def open_snapshot(target: StoreTarget, damaged: DamagedRows | None = None) -> DatabaseSnapshot:
    """A view of a store in a database, which passes over damaged rows if it can note them; raises the same."""
    database = database_of(target)
    from taskqueue.store.postgres.database_snapshot import DatabaseSnapshot

    return DatabaseSnapshot(database, damaged)


def open_store(target: StoreTarget) -> RocksStore | PostgresStore:
    """The store for writing; it is made if it is not there.

    Raises:
        ConfigError: the url is wrong, or what it takes to reach a database is not installed.
        StoreError: it can't be opened, or a daemon has it.
    """
    if target.url:
        database = database_of(target)
        from taskqueue.store.postgres.postgres_store import PostgresStore
        from taskqueue.store.postgres.writers import refuse_second_writer

        refuse_second_writer(database)
        return PostgresStore(database)
    from taskqueue.store.rocksdb.rocks_store import RocksStore

    return RocksStore(target.path, cache_bytes=target.cache_bytes)


def make_if_absent(target: StoreTarget) -> bool:
    """Make what a store needs before it is opened, if there is none; returns whether there was none.

    Raises:
        ConfigError: the url is wrong, or what it takes to reach a database is not installed.
        StoreError: it can't be made.
    """
    if target.url:
        database = database_of(target)
        from taskqueue.store.postgres.tables import make_tables

        return make_tables(database)
    from taskqueue.store.files.folder import is_store

    return not is_store(target.path)


def database_of(target: StoreTarget) -> Target:
    """The database that the url names.

    Raises:
        ConfigError: the url is wrong, or what it takes to reach a database is not installed.
    """
    from taskqueue.server.store_opener import database_target

    return database_target(target.url, target.schema, target.timeout)


def where(target: StoreTarget) -> str:
    """The folder or database, for messages, without a password."""
    return database_of(target).where if target.url else target.path


def refuse_database(command: str, instead: str, *places: str) -> None:
    """Refuse what is done to folders only.

    Args:
        instead: what to do.
        places: of which none may be the url of a database.

    Raises:
        click.ClickException: one is.
    """
    if any(map(names_database, places)):
        raise click.ClickException(
            f"store {command} is for stores in folders, and this one is in a database; {instead}"
        )
