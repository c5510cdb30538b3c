"""Tables of a store in a database: how they are made, and the cost of deleting rows from them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from taskqueue import Client
from taskqueue.store.contract import Batch
from taskqueue.store.postgres.postgres_store import CAREFUL_TURNS, DROPPED_AT_ONCE, FREED_AT_ONCE, PostgresStore
from taskqueue.store.postgres.tables import making, making_schema
from tests.postgres import postgres_url

if TYPE_CHECKING:
    from taskqueue.store.postgres.session import Target
    from tests.integration.conftest import DaemonFactory

TURNS = 20
SYNCS = 3000
ROUNDS = 5

ASKED_MOST = 20_000
"""Queries before a test gives up: some seconds at least."""


@pytest.fixture
def other(target: Target) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """Second connection, which finds the tables by their plain names."""
    with psycopg.connect(postgres_url(), options=f"-c search_path={target.schema}", autocommit=True) as connection:
        yield connection


def test_what_a_long_range_leaves_is_passed_over_once_though_an_old_snapshot_keeps_it(
    target: Target, other: psycopg.Connection[tuple[Any, ...]]
) -> None:
    project, after, rows = b"\0\0\0\7", b"\0\0\0\x08", DROPPED_AT_ONCE + TURNS * FREED_AT_ONCE
    with closing(PostgresStore(target)) as store, psycopg.connect(postgres_url()) as dump:
        epoch = store.begin()
        keys = [project + number.to_bytes(8, "big") for number in range(rows)]
        store.write(epoch, Batch(puts={"ready": [(key, b"") for key in keys]}))
        dump.execute("set transaction isolation level repeatable read")
        dump.execute("select 1")

        store.write(epoch, Batch(drops=[("ready", project, after)]))
        for _ in range(TURNS + 1):
            store.write(epoch, Batch())

        assert other.execute("select count(*) from kv_ready").fetchone() == (0,)
        assert other.execute("select count(*) from prefixes").fetchone() == (0,)

    assert entries_read(other, target, "kv_ready_pkey", rows) < 4 * rows


@pytest.mark.parametrize("action", ["clear", "delete"])
def test_what_was_dropped_is_deleted_though_nobody_asks_the_daemon_for_anything(
    daemon: DaemonFactory, target: Target, other: psycopg.Connection[tuple[Any, ...]], action: str
) -> None:
    it = daemon(url=postgres_url(), schema=target.schema)
    with Client(it.url) as client:
        client.push_many("news", [f"http://site/{number}" for number in range(DROPPED_AT_ONCE + TURNS * FREED_AT_ONCE)])
        getattr(client.projects, action)("news")
        it.kill()
        it.start()

        left = (
            "select (select count(*) from kv_ready) + (select count(*) from kv_specs) + (select count(*) from prefixes)"
        )
        for _ in range(ASKED_MOST):
            ((rows,),) = other.execute(left).fetchall()
            if not rows:
                break
        assert rows == 0
        client.push("news", "http://site/1")
        assert client.projects.get("news").counts.ready == 1
        assert client.daemon.verify() == []


def test_a_sync_looks_at_one_row_though_an_old_snapshot_keeps_those_before_it(
    target: Target, other: psycopg.Connection[tuple[Any, ...]]
) -> None:
    with closing(PostgresStore(target)) as store, psycopg.connect(postgres_url()) as dump:
        store.begin()
        dump.execute("set transaction isolation level repeatable read")
        dump.execute("select 1")
        for _ in range(SYNCS):
            store.sync()

    assert entries_read(other, target, "barriers_pkey", SYNCS) < 3 * SYNCS


def entries_read(other: psycopg.Connection[tuple[Any, ...]], target: Target, index: str, least: int) -> int:
    """Return the index entries that searches of a just closed connection have read, once they are ``least``."""
    sql = "select idx_tup_read from pg_stat_user_indexes where schemaname = %s and indexrelname = %s"
    read = 0
    while read < least:  # statistics arrive when the connection has gone
        ((read,),) = other.execute(sql, [target.schema, index]).fetchall()
    return read


def test_tables_whose_making_was_cut_short_are_finished_by_the_next_start(
    target: Target, other: psycopg.Connection[tuple[Any, ...]]
) -> None:
    for statement in (making_schema(target.schema), *making(target.schema)):
        other.execute(statement)

    for _ in range(2):
        PostgresStore(target).close()

    options = "select array_to_string(reloptions, ' ') from pg_class where oid = 'kv_ids'::regclass"
    ((found,),) = other.execute(options).fetchall()
    assert "fillfactor=50" in found
    assert "autovacuum_vacuum_threshold=2000" in found
    assert other.execute("select count(*) from schedulers").fetchone() == (1,)


def test_an_id_that_a_careful_turn_wrote_is_not_taken_for_a_new_one_afterwards(
    target: Target, other: psycopg.Connection[tuple[Any, ...]]
) -> None:
    known, used = Batch(puts={"ready": [(b"known", b"")]}), []
    with closing(PostgresStore(target)) as store:
        store.write(store.begin(), known)
    for number in range(ROUNDS):
        key = b"%d" % number
        with closing(PostgresStore(target)) as store:
            epoch = store.begin()
            assert store.get("ids", [key]) == [None]
            store.write(epoch, known)  # makes this turn and later ones careful
            for _ in range(CAREFUL_TURNS - 1):
                store.write(epoch, Batch(puts={"ids": [(key, b"")]}))
            before = transactions(other)
            store.write(epoch, Batch(puts={"ids": [(key, b"last")]}))
            used.append(transactions(other) - before)

    # The server may have run a transaction of its own meanwhile, but not each time.
    assert min(used) == 1


def transactions(connection: psycopg.Connection[tuple[Any, ...]]) -> int:
    """Count transactions since the server was made that wrote, or tried to."""
    ((number,),) = connection.execute("select pg_snapshot_xmax(pg_current_snapshot())::text::int8").fetchall()
    return int(number)
