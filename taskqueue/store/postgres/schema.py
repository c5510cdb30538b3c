"""The tables of a store in PostgreSQL, and the statements that make them.

| table | has |
|---|---|
| kv_FAMILY | the entries of a family: ``key``, ``value``, ``crc``: see ``checksums`` |
| schedulers | a row a scheduler: its epoch, and the number of its last turn, which each turn moves on: see ``fence`` |
| barriers | a row a scheduler, updated by each sync |
| prefixes | ranges that were dropped and have rows still, and what prefixes are stored as instead; see ``prefixes`` |
| inbox, inbox_rejected | tasks that producers have inserted, and those that were refused; see ``inbox`` |
| versions | of these tables |

Only what CockroachDB, YugabyteDB and Citus know, too: no sequences, no advisory locks, no functions in PL/pgSQL. How
often tables are vacuumed is said apart, because not each of them lets it be said.
"""

from __future__ import annotations

from typing import Final

from taskqueue.store.postgres import inbox
from taskqueue.store.records.layout import DATABASE_FAMILIES, IDS

TABLES_VERSION: Final = 2
"""2: rows have checksums, and there is the family ``damaged``."""
TABLES: Final = "tables"
"""The row of ``versions`` that says the version of the tables."""

SCHEDULER: Final = 1
"""The number of the only scheduler that there is."""

IDS_FILL: Final = 50
"""Percent to which pages of ``ids`` are filled: a record is written again when its task ends, mostly into its own page
then, and without a new entry in the index. That saves an eighth of a lifecycle."""

_VACUUM: Final = (
    "autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0"
)


def table(schema: str, family: str) -> str:
    """The name of a family's table."""
    return f"{schema}.kv_{family}"


def making_schema(schema: str) -> str:
    """The statement that makes the schema, which takes a right to do so even where it is there."""
    return f"create schema if not exists {schema}"


def making(schema: str) -> list[str]:
    """Statements that make what is missing in the schema; running them again changes nothing."""
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
    """Statements that add what tables of version 1 lack; running them again changes nothing."""
    names = [*(table(schema, family) for family in DATABASE_FAMILIES), f"{schema}.schedulers"]
    return [f"alter table {name} add column if not exists crc int4" for name in names]


def made(schema: str) -> str:
    """The statement that says that all is there."""
    return (
        f"insert into {schema}.versions values ('{TABLES}', {TABLES_VERSION}) "
        f"on conflict (name) do update set number = excluded.number where versions.number < excluded.number"
    )


def tuning(schema: str) -> list[str]:
    """Statements that an engine may refuse: how full pages are made, and when dead rows are removed."""
    return [
        f"alter table {table(schema, IDS)} set (fillfactor = {IDS_FILL})",
        *(f"alter table {table(schema, family)} set ({_VACUUM})" for family in DATABASE_FAMILIES),
        *(f"alter table {schema}.{name} set (fillfactor = 10, {_VACUUM})" for name in ("schedulers", "barriers")),
        *(f"alter table {schema}.{name} set ({_VACUUM})" for name in ("inbox", "inbox_rejected", "prefixes")),
    ]
