"""Damage in a database: each row has a checksum, so that what was changed beneath the daemon is noticed."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest

from taskqueue.errors import Damaged, FormatError, Unreadable
from taskqueue.store.contract import Batch
from taskqueue.store.postgres.database_snapshot import DatabaseSnapshot
from taskqueue.store.postgres.postgres_store import DROPPED_AT_ONCE, PostgresStore
from taskqueue.store.postgres.schema import completing
from tests.postgres import postgres_url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from taskqueue.store.postgres.target import Target

PROJECT = b"\0\0\0\7"
ROWS = [(PROJECT + b"%02d" % number, b"value %d" % number) for number in range(20)]
FLIPPED = "set_byte(value, 0, get_byte(value, 0) # 1)"
END = b"\xff" * 8


@pytest.fixture
def sql(target: Target) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """An operator's connection, which finds the tables by their plain names."""
    with psycopg.connect(postgres_url(), options=f"-c search_path={target.schema}", autocommit=True) as connection:
        yield connection


@pytest.fixture
def store(target: Target) -> Iterator[PostgresStore]:
    with closing(PostgresStore(target)) as opened:
        opened.write(opened.begin(), Batch(puts={"ids": ROWS}))
        yield opened


# ------------------------------------------------------------------------------------------------ checksums


@pytest.mark.parametrize(
    "change",
    [
        f"update kv_ids set value = {FLIPPED} where key = %s",
        "update kv_ids set value = substring(value from 1 for octet_length(value) - 1) where key = %s",
        "update kv_ids set value = '' where key = %s",
        "update kv_ids set crc = crc # 1 where key = %s",
        # A row of another key, and one of another family.
        "update kv_ids set (value, crc) = (select value, crc from kv_ids where key = '\\x000000073031') where key = %s",
        "update kv_ids set (value, crc) = (select value, crc from kv_meta where key = 'format') where key = %s",
    ],
    ids=["flipped", "cut", "emptied", "another checksum", "another key", "another family"],
)
def test_a_row_that_was_changed_beneath_the_daemon_is_not_returned_and_is_noted(
    store: PostgresStore, sql: psycopg.Connection[tuple[Any, ...]], change: str
) -> None:
    wanted = [key for key, _ in ROWS]

    sql.execute(change, [wanted[5]])

    sound = ROWS[:5] + ROWS[6:]
    assert store.get("ids", wanted) == [value if key != wanted[5] else None for key, value in ROWS]
    # As many as were asked for: one fewer would mean that there are no more.
    assert store.scan("ids", PROJECT, END, 10) == sound[:10]
    assert store.scan_back("ids", PROJECT, END, 15) == sound[::-1][:15]
    assert [(row.family, row.key, row.reason) for row in store.damaged] == [
        ("ids", wanted[5], "its checksum does not match")
    ]


def test_a_reader_that_can_not_note_damage_refuses_the_row(
    store: PostgresStore, target: Target, sql: psycopg.Connection[tuple[Any, ...]]
) -> None:
    sql.execute(f"update kv_ids set value = {FLIPPED} where key = %s", [ROWS[0][0]])

    with closing(DatabaseSnapshot(target)) as snapshot, pytest.raises(Unreadable, match="family ids, key 000000073030"):
        snapshot.scan("ids", PROJECT, END, 10)


def test_a_row_of_a_project_that_is_stored_elsewhere_has_its_own_checksum(
    store: PostgresStore, sql: psycopg.Connection[tuple[Any, ...]]
) -> None:
    after = b"\0\0\0\x08"
    many = [(PROJECT + number.to_bytes(8, "big"), b"") for number in range(DROPPED_AT_ONCE + 1)]
    epoch = store.begin()
    store.write(epoch, Batch(puts={"ready": many}))
    store.write(epoch, Batch(puts={"ready": ROWS}, drops=[("ready", PROJECT, after)]))

    assert sql.execute("select count(*) from prefixes").fetchone() == (2,)
    assert store.scan("ready", PROJECT, END, 100) == ROWS
    assert store.get("ready", [key for key, _ in ROWS]) == [value for _, value in ROWS]
    sql.execute("update kv_ready set key = overlay(key placing '\\x00000009' from 1 for 4) where value = 'value 3'")
    assert store.scan("ready", PROJECT, b"\0\0\0\x0a", 100) == ROWS[:3] + ROWS[4:]
    assert [row.key for row in store.damaged] == [b"\0\0\0\x0903"]


# ------------------------------------------------------------------------------------------------ older stores


def test_rows_from_before_there_were_checksums_are_read_and_get_one_when_they_are_written(
    target: Target, sql: psycopg.Connection[tuple[Any, ...]]
) -> None:
    with closing(PostgresStore(target)) as store:
        store.write(store.begin(), Batch(puts={"ids": ROWS}))
    make_older(sql)

    with closing(PostgresStore(target)) as store:
        epoch = store.begin()
        assert store.scan("ids", b"", END, 100) == ROWS
        store.write(epoch, Batch(puts={"ids": ROWS[:3]}))
        assert store.scan("ids", b"", END, 100) == ROWS

    assert sql.execute("select count(crc) from kv_ids").fetchone() == (3,)
    assert sql.execute("select number from versions where name = 'tables'").fetchone() == (2,)
    assert sql.execute("select count(*) from kv_damaged").fetchone() == (0,)


def test_older_tables_are_not_changed_by_looking_at_them(
    target: Target, sql: psycopg.Connection[tuple[Any, ...]]
) -> None:
    PostgresStore(target).close()
    make_older(sql)

    with pytest.raises(FormatError, match="its tables have version 1, not 2"):
        DatabaseSnapshot(target)

    assert sql.execute("select number from versions where name = 'tables'").fetchone() == (1,)


def make_older(sql: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Make the tables as version 1 had them."""
    for statement in completing("it"):
        name = statement.split()[2].removeprefix("it.")
        sql.execute(f"alter table {name} drop column crc")
    sql.execute("drop table kv_damaged")
    sql.execute("update versions set number = 1 where name = 'tables'")


# ------------------------------------------------------------------------------------------------ who may write


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("update schedulers set epoch = epoch + 1", "schedulers: its checksum does not match"),
        ("update schedulers set owner = set_byte(owner, 3, get_byte(owner, 3) # 1)", "schedulers: its checksum"),
        ("delete from schedulers", "schedulers: there are 0 rows of it, not 1"),
        ("insert into schedulers values (1, 77, 0)", "schedulers: there are 2 rows of it, not 1"),
        ("delete from barriers", "barriers: its row is missing"),
        (f"update kv_meta set value = {FLIPPED} where key = 'epoch'", "family meta"),
        (f"update kv_meta set value = {FLIPPED} where key = 'format'", "family meta"),
    ],
)
def test_damage_to_what_says_who_may_write_ends_a_start_as_damage(
    store: PostgresStore, target: Target, sql: psycopg.Connection[tuple[Any, ...]], change: str, reason: str
) -> None:
    store.close()
    sql.execute(change)

    with pytest.raises(Damaged, match=reason), closing(PostgresStore(target)) as again:
        again.begin()
