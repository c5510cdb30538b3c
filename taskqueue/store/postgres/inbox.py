"""The inbox: a table into which producers insert tasks in their own transactions, together with their own rows.

    producer    begin … insert into taskqueue.inbox (project, url) … commit
    daemon      read some rows ──► decide ──► one transaction: changes of the tasks, and the rows deleted by their ids
                                              (it fails if one is gone, so that none is taken twice)

There is no watermark: a transaction that began first may commit last, and its rows are seen after that. Refused rows go
to ``inbox_rejected``, with the reason. A producer only needs the right to insert.

Taken rows stay in the table while any open transaction might see them, such as a dump's, and each look would have to
skip them all. So a look reads two parts of the table:

    page 0 ─── skipped ───[swept by this look]─── skipped ───[from SLACK_PAGES before the first row of the last look on]

The second part has new rows, because there is no room before it while taken rows stay. The first part, which moves
through the table in turns, finds all others: rows that were committed late, or written where room became free. So the
cost of a look is bounded by these pages, and no row is missed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from msgspec import Struct

from taskqueue.store.contract import Taken
from taskqueue.store.postgres.packing import TEXT_OID, UUID_OID, packed_array, packed_number, unpacked_number
from taskqueue.store.postgres.session import Row, Session, Statement

ROWS_MOST: Final = 1000
BYTES_MOST: Final = 4 << 20
"""Rows, and bytes of their texts, per read at most; at least one row is read."""

CHANNEL: Final = "inbox"
"""Channel on which producers may notify the daemon, so that it looks at once; follows the schema and ``_``."""

SLACK_PAGES: Final = 500
SWEPT_PAGES: Final = 500
"""Pages that a look may read before the rows that it expects, and elsewhere: about ten thousand rows each."""

_TEXTS: Final = ("project", "url", "taskid", "schedule", "body", "depends_on", "on_parent_failure")
_COLUMNS: Final = (*_TEXTS, "inserted_at")


class InboxRow(Struct, frozen=True):
    """Row of the inbox; texts are None if the column is null.

    Attributes:
        id: 16 bytes.
        size: bytes of its texts; the texts of too large a row were not read.
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
    """Make statements that create the tables; running them again changes nothing.

    JSON keeps its original text: the text of a ``jsonb`` may be a thousand times as long (1e100000), so that a small
    row could become unreadable.
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


class InboxReader:
    """Reader of an inbox, in bounded looks.

    Attributes:
        has_left_out: the last look left out a part of the table, which the next ones read.
    """

    def __init__(self, session: Session, schema: str) -> None:
        """Prepare looks at the inbox of a schema.

        Raises:
            StoreError: the database can't be asked.
        """
        self._session = session
        self.has_left_out = False
        self._has_pages = _has_pages(session)
        self._pages = Statement(
            f"select pg_relation_size('{schema}.inbox') / current_setting('block_size')::int8"
            if self._has_pages
            else "select 0"
        )
        self._sql = _reading(schema, self._has_pages)
        self._from = 0  # rows that wait at a start are taken in their order, for one look at the whole table
        self._swept = 0

    def rows(self, beside: Statement, without: Collection[bytes], largest: int) -> tuple[list[Row], list[InboxRow]]:
        """Read the rows of another statement, and some of the inbox, about in the order in which they were inserted.

        Args:
            beside: other statement, run in the same round trip.
            without: ids of rows that are being taken already.
            largest: bytes of texts beyond which the texts of a row are not read.

        Raises:
            StoreError: they can't be read.
        """
        until = min(self._swept + SWEPT_PAGES, self._from)
        places = (_place(self._swept), _place(until), _place(self._from)) if self._has_pages else ()
        values = packed_array(without, UUID_OID), packed_number(largest), *places
        others, sizes, found = self._session.run("read", [beside, self._pages, Statement(self._sql, values)])
        rows = [InboxRow(id or b"", unpacked_number(size or b""), *texts) for _, id, size, *texts in found]
        expected = next((page for place, *_ in found if (page := _page(place)) >= self._from), None)
        was_cut = len(rows) == ROWS_MOST or sum(row.size for row in rows) >= BYTES_MOST
        if was_cut and expected is None:
            self.has_left_out = True
            return others, rows
        self.has_left_out = until < self._from
        self._swept = until if self.has_left_out else 0
        self._expect_from(unpacked_number(sizes[0][0] or b"") if expected is None else expected)
        return others, rows

    def _expect_from(self, page: int) -> None:
        self._from = max(0, page - SLACK_PAGES)


def _reading(schema: str, has_pages: bool) -> str:
    """Make SQL for the rows of the pages from $3 to before $4, and from $5 on; without pages, for all rows."""
    # Lengths are computed without joining the texts, which may be too long for that.
    size = " + ".join(f"coalesce(octet_length({name}::text)::int8, 0)" for name in _TEXTS)
    columns = f"id, {', '.join(_TEXTS)}"
    wanted = f"from {schema}.inbox where not (id = any($1::uuid[]))"
    parts = (
        f"select ctid as place, {columns} {wanted} and ctid >= $3::tid and ctid < $4::tid union all "
        f"select ctid, {columns} {wanted} and ctid >= $5::tid"
        if has_pages
        else f"select ''::text as place, {columns} {wanted}"
    )
    return (
        f"with found as ({parts} limit {ROWS_MOST}), "
        "texts as (select place, id, project, url, taskid, schedule::text, body::text, depends_on::text, "
        f"on_parent_failure, {size} as size from found), "
        "summed as (select *, sum(size) over (rows unbounded preceding) - size as before from texts) "
        f"select place, id, size, {', '.join(f'case when size <= $2::int8 then {name} end' for name in _TEXTS)} "
        f"from summed where before < {BYTES_MOST}"
    )


def _has_pages(session: Session) -> bool:
    """Whether rows have places in pages, as in PostgreSQL itself; other engines store tables differently."""
    (name,) = session.run("read", [Statement("select version()")])[0][0]
    return (name or b"").startswith(b"PostgreSQL ") and b"-YB-" not in (name or b"")


def _place(page: int) -> bytes:
    return page.to_bytes(4, "big") + b"\0\0"


def _page(place: bytes | None) -> int:
    """Return the page of a place; 0 without pages."""
    return int.from_bytes((place or b"")[:4], "big")


def taking(schema: str, taken: Taken) -> Iterator[Statement]:
    """Make statements that take rows out of the inbox; the transaction fails if one is gone."""
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
        "count(*) = $2::int8 then '1' else 'another session has deleted rows of the inbox' end as int) from gone"
    )
    yield Statement(sql, (packed_array(taken.ids, UUID_OID), packed_number(len(taken.ids))))
