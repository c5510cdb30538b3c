"""Reading the inbox of a store in a database: rows that stay in the table cost little, and none is missed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest

from taskqueue.store.contract import Batch, Taken
from taskqueue.store.postgres.inbox import ROWS_MOST, SLACK_PAGES, SWEPT_PAGES, InboxRow
from taskqueue.store.postgres.postgres_store import PostgresStore
from tests.postgres import postgres_url

if TYPE_CHECKING:
    from taskqueue.store.postgres.session import Target

LARGEST: Final = 1 << 20
PAGES: Final = 4 * (SLACK_PAGES + SWEPT_PAGES)
ROWS_PER_PAGE: Final = 2

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def store(target: Target) -> Iterator[PostgresStore]:
    """Store whose inbox has few rows a page, so that few rows make many pages."""
    with closing(PostgresStore(target)) as made, connected(target) as other:
        other.execute("alter table inbox set (fillfactor = 10, autovacuum_enabled = off)")
        made.begin()
        yield made


@pytest.fixture
def dump() -> Iterator[Connection]:
    """Transaction that sees the table as at the beginning of the test."""
    with psycopg.connect(postgres_url()) as connection:
        connection.execute("set transaction isolation level repeatable read")
        connection.execute("select 1")
        yield connection


def connected(target: Target) -> Connection:
    """Open a connection that finds the tables by their plain names."""
    return psycopg.connect(postgres_url(), options=f"-c search_path={target.schema},public", autocommit=True)


def insert(connection: Connection, rows: int) -> None:
    body = "x" * (8192 // 10 // ROWS_PER_PAGE - 100)
    connection.execute(
        "insert into inbox (project, url, body) select 'news', 'http://site/' || n, to_json(%s::text) "
        "from generate_series(1, %s) as n",
        [body, rows],
    )


def take(store: PostgresStore, looks: int = 1) -> list[InboxRow]:
    """Read the inbox ``looks`` times at most, until rows are found; remove and return them."""
    for _ in range(looks):
        if rows := store.inbox_rows([], LARGEST):
            store.write(1, Batch(taken=Taken([row.id for row in rows], [])))
            return rows
    return []


def take_all(store: PostgresStore) -> int:
    taken = 0
    while rows := take(store):
        taken += len(rows)
    return taken


def pages(connection: Connection) -> int:
    ((count,),) = connection.execute("select pg_relation_size('inbox') / 8192").fetchall()
    return int(count)


def test_a_look_passes_over_few_of_the_rows_that_an_old_snapshot_keeps(
    store: PostgresStore, target: Target, dump: Connection
) -> None:
    looks = 300
    with connected(target) as other:
        insert(other, PAGES * ROWS_PER_PAGE)
        other.execute("delete from inbox")
        kept = pages(other)
        assert kept > 3 * (SLACK_PAGES + SWEPT_PAGES)

        with closing(PostgresStore(target)) as looking:
            for _ in range(looks):
                assert looking.inbox_rows([], LARGEST) == []

        sql = "select heap_blks_read + heap_blks_hit from pg_statio_all_tables where relid = 'inbox'::regclass"
        read = 0
        while read < looks * SWEPT_PAGES:  # statistics arrive when the connection has gone
            ((read,),) = other.execute(sql).fetchall()

    # The first look reads everything, and the connection that inserted and deleted the rows has read some, too.
    assert read <= looks * (SLACK_PAGES + SWEPT_PAGES) + 10 * kept


def test_a_row_is_found_wherever_it_lies_and_whenever_its_transaction_ends(
    store: PostgresStore, target: Target, dump: Connection
) -> None:
    with connected(target) as other, connected(target) as late:
        late.execute("begin")
        insert(late, 1)
        insert(other, PAGES * ROWS_PER_PAGE)
        take_all(store)
        assert store.inbox_has_more

        late.execute("commit")

        assert len(take(store, looks=pages(other) // SWEPT_PAGES + 2)) == 1
        for _ in range(PAGES // SWEPT_PAGES):
            insert(other, 1)
            assert len(take(store)) == 1  # a new row is found at once


def test_after_the_snapshot_rows_are_found_in_the_room_that_became_free(
    store: PostgresStore, target: Target, dump: Connection
) -> None:
    with connected(target) as other:
        insert(other, PAGES * ROWS_PER_PAGE)
        take_all(store)
        insert(other, 1)  # the last page stays
        dump.rollback()
        while True:
            other.execute("vacuum inbox")
            insert(other, ROWS_MOST + 1)
            ((first,),) = other.execute("select min(ctid) from inbox").fetchall()
            if first == "(0,1)":
                break

        found = 0
        for _ in range(pages(other) // SWEPT_PAGES + 3):
            found += len(take(store))

        assert other.execute("select count(*) from inbox").fetchone() == (0,)
        assert found > ROWS_MOST


def test_rows_are_found_in_about_the_order_in_which_they_were_inserted(store: PostgresStore, target: Target) -> None:
    with connected(target) as other:
        insert(other, PAGES * ROWS_PER_PAGE)

        found: list[InboxRow] = []
        with closing(PostgresStore(target)) as taking:
            while rows := take(taking):
                found += rows

    assert [row.url for row in found] == [f"http://site/{number}".encode() for number in range(1, len(found) + 1)]
    assert len(found) == PAGES * ROWS_PER_PAGE
