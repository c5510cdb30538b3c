"""The tables of a store in PostgreSQL: make them, complete older ones, and check existing ones.

| table | content |
|---|---|
| kv_FAMILY | entries of a family: ``key``, ``value``, ``crc``: see ``checksums`` |
| schedulers | one row: the daemon's epoch, and the number of its last turn, which each turn advances: see ``fence`` |
| barriers | one row, updated by each sync |
| prefixes | dropped ranges that still have rows, and prefixes that are stored as others; see ``prefixes`` |
| inbox, inbox_rejected | tasks that producers have inserted, and refused ones; see ``inbox`` |
| versions | versions of these tables and of the views |

They use only features that CockroachDB, YugabyteDB and Citus have, too: no sequences, no advisory locks, no functions
in PL/pgSQL. Vacuum settings are separate statements, because not every engine accepts them.
"""

from __future__ import annotations

from contextlib import closing
from typing import Final

from taskqueue.errors import Damaged, DatabaseError, FormatError, StoreError
from taskqueue.store.postgres import inbox
from taskqueue.store.postgres.packing import unpacked_number
from taskqueue.store.postgres.prefixes import Prefixes
from taskqueue.store.postgres.session import READS, KeyTaken, NotAllowed, Session, Statement, Target
from taskqueue.store.records.layout import DATABASE_FAMILIES, IDS

TABLES_VERSION: Final = 3
"""Version of the tables. 2 added checksums of rows, and the family ``damaged``."""
TABLES: Final = "tables"
"""Row of ``versions`` with the version of the tables."""

SCHEDULER: Final = 1
"""Number of the only row in ``schedulers`` and ``barriers``."""

IDS_FILL: Final = 50
"""Percent to which pages of ``ids`` are filled.

A record is rewritten when its task ends, and then mostly fits into its own page, without a new entry in the index. That
saves an eighth of a lifecycle.
"""

_VACUUM: Final = (
    "autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0"
)


def table(schema: str, family: str) -> str:
    """Return the name of a family's table."""
    return f"{schema}.kv_{family}"


def making_schema(schema: str) -> str:
    """Make the statement that creates the schema; it needs the right to do so even if the schema exists."""
    return f"create schema if not exists {schema}"


def making(schema: str) -> list[str]:
    """Make statements that create missing tables in the schema; running them again changes nothing."""
    return [
        *(
            f"create table if not exists {table(schema, family)} "
            "(key bytea primary key, value bytea not null, crc int4)"
            for family in DATABASE_FAMILIES
        ),
        f"create table if not exists {schema}.schedulers "
        "(id int, epoch bigint not null, turn bigint not null, owner bytea, crc int4, "
        "primary key (id, epoch, turn))",
        f"create table if not exists {schema}.barriers (id int, number bigint not null, primary key (id, number))",
        f"create table if not exists {schema}.prefixes "
        "(family text, stored_as bytea, prefix bytea, primary key (family, stored_as))",
        f"create table if not exists {schema}.versions (name text primary key, number int not null)",
        *inbox.making(schema),
        f"insert into {schema}.schedulers (id, epoch, turn) select {SCHEDULER}, 0, 0 "
        f"where not exists (select 1 from {schema}.schedulers where id = {SCHEDULER})",
        f"insert into {schema}.barriers (id, number) select {SCHEDULER}, 0 "
        f"where not exists (select 1 from {schema}.barriers where id = {SCHEDULER})",
    ]


def completing(schema: str) -> list[str]:
    """Make statements that add the columns missing from version 1; running them again changes nothing."""
    names = [*(table(schema, family) for family in DATABASE_FAMILIES), f"{schema}.schedulers"]
    return [f"alter table {name} add column if not exists crc int4" for name in names]


def made(schema: str) -> str:
    """Make the statement that records that all tables exist."""
    return (
        f"insert into {schema}.versions values ('{TABLES}', {TABLES_VERSION}) "
        f"on conflict (name) do update set number = excluded.number where versions.number < excluded.number"
    )


def tuning(schema: str) -> list[str]:
    """Make statements that an engine may refuse: how full pages are, and when dead rows are removed."""
    return [
        f"alter table {table(schema, IDS)} set (fillfactor = {IDS_FILL})",
        *(f"alter table {table(schema, family)} set ({_VACUUM})" for family in DATABASE_FAMILIES),
        *(f"alter table {schema}.{name} set (fillfactor = 10, {_VACUUM})" for name in ("schedulers", "barriers")),
        *(f"alter table {schema}.{name} set ({_VACUUM})" for name in ("inbox", "inbox_rejected", "prefixes")),
    ]


def gone(where: str, why: str) -> Damaged:
    """Make the error of a store that this process has used, and that is gone."""
    return Damaged(f"{where}: the store is gone: {why}; restore the database from a backup")


def make_tables(target: Target) -> bool:
    """Create the tables if the schema has none, and complete older ones; return whether it had none.

    Rights to create tables are needed only then.

    Raises:
        FormatError: a newer version has made them.
        StoreError: the role lacks a right, or the database has another encoding than UTF-8.
    """
    found = _version(target)
    if found is None or found < TABLES_VERSION:
        _make(target)
    return found is None


def find_tables(target: Target) -> None:
    """Check that the tables still exist that this process has used.

    Raises:
        FormatError: a newer version has made them.
        Damaged: there are none.
        StoreError: they can't be looked for.
    """
    if _version(target) is None:
        raise gone(target.where, f"there are no tables in schema {target.schema} any more")


def _version(target: Target) -> int | None:
    """Return the version of the tables; None if there are no tables.

    Raises:
        FormatError: a newer version has made them.
        StoreError: the database has another encoding than UTF-8.
    """
    with closing(Session(target, READS)) as session:
        _refuse_encoding(session, target.where)
        found = tables_version(session, target.schema)
    if found is not None and found > TABLES_VERSION:
        raise FormatError(
            f"{target.where}: its tables have version {found}, not {TABLES_VERSION}; "
            "start the version of taskqueue that made them, or give this one a schema of its own by store.schema"
        )
    return found


def _refuse_encoding(session: Session, where: str) -> None:
    """Refuse a database in another encoding, which can't store all texts, or does not know their meaning."""
    (encoding,) = session.run("read", [Statement("select current_setting('server_encoding')")])[0][0]
    if encoding != b"UTF8":
        raise StoreError(
            f"{where}: its encoding is {(encoding or b'').decode()}, not UTF8; "
            "make a database with: createdb --encoding UTF8 --template template0 NAME"
        )


def tables_version(session: Session, schema: str) -> int | None:
    """Return the version of the tables; None if there are none.

    Raises:
        StoreError: they can't be read.
    """
    named = f"select 1 from information_schema.tables where table_schema = '{schema}' and table_name = 'versions'"
    if not session.run("read", [Statement(named)])[0]:
        return None
    rows = session.run("read", [Statement(f"select number from {schema}.versions where name = '{TABLES}'")])[0]
    return unpacked_number(rows[0][0] or b"") if rows else None


def load_prefixes(session: Session, schema: str) -> Prefixes:
    """Load the retired ranges and moved prefixes."""
    rows = session.run("read", [Statement(f"select family, stored_as, prefix from {schema}.prefixes")])[0]
    return Prefixes(((family or b"").decode(), stored_as or b"", prefix) for family, stored_as, prefix in rows)


def _make(target: Target) -> None:
    """Create what is missing. The version is written last, so an interrupted start does no harm.

    A running daemon of an older version writes no checksums, and is fenced before any row has one.
    """
    with closing(Session(target, READS)) as session:
        there = Statement("select 1 from pg_namespace where nspname = $1::text", (target.schema.encode(),))
        is_there = session.run("read", [there])[0]
        made_first = [] if is_there else [making_schema(target.schema)]
        statements = ["begin", *made_first, *making(target.schema), *completing(target.schema), "commit"]
        try:
            session.run("make", map(Statement, statements))
        except NotAllowed as error:
            raise StoreError(
                f"{error}, so its tables can't be made; have an administrator run what "
                "`taskqueue store init --print-sql` prints, with the rights for this role"
            ) from None
        except KeyTaken as error:
            raise DatabaseError(
                f"{error}; another session is making it at this moment", "its tables are being made"
            ) from None
        session.offer([Statement(statement) for statement in tuning(target.schema)])
        session.run("make", [Statement(made(target.schema))])
