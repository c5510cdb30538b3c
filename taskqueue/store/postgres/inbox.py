"""The inbox: a table into which producers insert tasks in transactions of their own, together with their own rows.

    producer    begin … insert into taskqueue.inbox (project, url) … commit
    daemon      read some rows ──► decide ──► one transaction: what became of them, and the rows deleted by their ids
                                              (it fails if one is gone, so that none is taken up twice)

There is no watermark: a transaction that began first may commit last, and its rows are seen when it has. What can't be
taken goes to ``inbox_rejected``, with the reason. A producer needs the right to insert, and no other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from msgspec import Struct

from taskqueue.store.contract import Taken
from taskqueue.store.postgres.packing import TEXT_OID, UUID_OID, packed_array, packed_number, unpacked_number
from taskqueue.store.postgres.session import Session, Statement

ROWS_MOST: Final = 1000
BYTES_MOST: Final = 4 << 20
"""Rows and bytes of texts that are read at once, though at least one row."""

CHANNEL: Final = "inbox"
"""After the schema and ``_``: the channel on which a producer may notify, so that the daemon looks at once."""

_TEXTS: Final = ("project", "url", "taskid", "schedule", "body", "depends_on", "on_parent_failure")
_COLUMNS: Final = (*_TEXTS, "inserted_at")


class InboxRow(Struct, frozen=True):
    """A row of the inbox; texts are None where the row has null.

    Attributes:
        id: 16 bytes.
        size: bytes of its texts; those of a row that is too large were not read.
        schedule, body, depends_on: JSON.
    """

    id: bytes
    size: int
    project: bytes | None
    url: bytes | None
    taskid: bytes | None
    schedule: bytes | None
    body: bytes | None
    depends_on: bytes | None
    on_parent_failure: bytes | None


def making(schema: str) -> list[str]:
    """Statements that make the tables; running them again changes nothing.

    JSON is kept as it was written: of what ``jsonb`` keeps the text may be a thousand times as long (1e100000), so that
    a small row could be one that can't be read.
    """
    columns = (
        "id uuid primary key default gen_random_uuid(), project text not null, url text not null, taskid text, "
        "schedule json, body json, depends_on json, on_parent_failure text, "
        "inserted_at timestamptz not null default now()"
    )
    return [
        f"create table if not exists {schema}.inbox ({columns})",
        f"create table if not exists {schema}.inbox_rejected "
        f"({columns}, rejected_at timestamptz not null default now(), reason text not null)",
    ]


def read_inbox(session: Session, schema: str, without: Collection[bytes], largest: int) -> list[InboxRow]:
    """Some rows, about in the order in which they were inserted.

    Args:
        without: ids of rows that are being taken up already.
        largest: bytes of texts beyond which those of a row are not read.

    Raises:
        StoreError: they can't be read.
    """
    # Lengths are known without the texts, which may be too long to be put together.
    size = " + ".join(f"coalesce(octet_length({name}::text)::int8, 0)" for name in _TEXTS)
    sql = (
        f"with found as (select * from {schema}.inbox where not (id = any($1::uuid[])) limit {ROWS_MOST}), "
        "texts as (select id, project, url, taskid, schedule::text, body::text, depends_on::text, on_parent_failure, "
        f"{size} as size from found), "
        "summed as (select *, sum(size) over (rows unbounded preceding) - size as before from texts) "
        f"select id, size, {', '.join(f'case when size <= $2::int8 then {name} end' for name in _TEXTS)} "
        f"from summed where before < {BYTES_MOST}"
    )
    values = packed_array(without, UUID_OID), packed_number(largest)
    rows = session.run("read", [Statement(sql, values)])[0]
    return [InboxRow(id or b"", unpacked_number(size or b""), *texts) for id, size, *texts in rows]


def taking(schema: str, taken: Taken) -> Iterator[Statement]:
    """Statements that take rows out of the inbox; one that is gone makes the transaction fail."""
    if taken.refused:
        ids, reasons = zip(*taken.refused, strict=True)
        sql = (
            f"insert into {schema}.inbox_rejected (id, {', '.join(_COLUMNS)}, reason) select row.id, "
            f"{', '.join(f'row.{name}' for name in _COLUMNS)}, refused.reason from {schema}.inbox row "
            "join unnest($1::uuid[], $2::text[]) as refused (id, reason) on refused.id = row.id on conflict do nothing"
        )
        texts = [reason.replace("\0", "").encode() for reason in reasons]
        yield Statement(sql, (packed_array(ids, UUID_OID), packed_array(texts, TEXT_OID)))
    sql = (
        f"with gone as (delete from {schema}.inbox where id = any($1::uuid[]) returning 1) select cast(case when "
        "count(*) = $2::int8 then '1' else 'somebody else has deleted rows of the inbox' end as int) from gone"
    )
    yield Statement(sql, (packed_array(taken.ids, UUID_OID), packed_number(len(taken.ids))))
