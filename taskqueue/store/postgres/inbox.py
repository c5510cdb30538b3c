"""The inbox: a table into which producers insert tasks in transactions of their own, together with their own rows.

    producer    begin … insert into taskqueue.inbox (project, url) … commit
    daemon      read some rows ──► decide ──► one transaction: what became of them, and the rows deleted by their ids
                                              (it fails if one is gone, so that none is taken up twice)

There is no watermark: a transaction that began first may commit last, and its rows are seen when it has. What can't be
taken goes to ``inbox_rejected``, with the reason. A producer needs the right to insert, and no other.

Rows that were taken stay in the table for as long as somebody's transaction is open that might see them, such as that
of a dump, and each look would pass over all of them. So a look is at two parts of the table:

    page 0 ─── passed ───[swept by this look]─── passed ───[from SLACK_PAGES before the first row of the last look on]

The second part has what is new, because there is no room before it as long as rows stay. Whatever lies elsewhere, as
what was committed late, or what was put where there is room again, is met by the first part, which goes through the
table in turns: a look costs as much as these pages, and no row is missed.
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
"""Rows and bytes of texts that are read at once, though at least one row."""

CHANNEL: Final = "inbox"
"""After the schema and ``_``: the channel on which a producer may notify, so that the daemon looks at once."""

SLACK_PAGES: Final = 500
SWEPT_PAGES: Final = 500
"""Pages that a look passes over at most before the rows that it expects, and elsewhere: ten thousand rows or so."""

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


class InboxReader:
    """Reads the rows of an inbox, in bounded looks.

    Attributes:
        has_left_out: the last look has left out a part of the table, which the next ones look at.
    """

    def __init__(self, session: Session, schema: str) -> None:
        """Raises:
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
        self._from = 0  # what waits at a start is taken up in its order, at the price of one look at everything
        self._swept = 0

    def rows(self, beside: Statement, without: Collection[bytes], largest: int) -> tuple[list[Row], list[InboxRow]]:
        """The rows of another statement, and some of the inbox, about in the order in which they were inserted.

        Args:
            beside: the other statement, run in the same round trip.
            without: ids of rows that are being taken up already.
            largest: bytes of texts beyond which those of a row are not read.

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
    """Rows of the pages from $3 to before $4, and then from $5 on; where there are no pages, of all."""
    # Lengths are known without the texts, which may be too long to be put together.
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
    """Whether rows have places in pages, as they have in PostgreSQL itself; other engines keep tables otherwise."""
    (name,) = session.run("read", [Statement("select version()")])[0][0]
    return (name or b"").startswith(b"PostgreSQL ") and b"-YB-" not in (name or b"")


def _place(page: int) -> bytes:
    """The first place of a page, as a ``tid``."""
    return page.to_bytes(4, "big") + b"\0\0"


def _page(place: bytes | None) -> int:
    """The page of a place; 0 where there are none."""
    return int.from_bytes((place or b"")[:4], "big")


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
