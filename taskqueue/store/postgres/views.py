"""Views for queries in SQL: projects, tasks and attempts, decoded from the packed entries by functions in plain SQL.

``records/layout`` describes the encodings; only needed fields are read here. A value is MessagePack: ``packed_next``
returns how long a head is and how many values it contains, so that a function skips values by counting them down.

Views only read, and the daemon never reads them. A daemon with a newer version replaces them; columns are only ever
added at the end, so that an operator's own views that depend on them stay valid.

``script`` prints all that a store needs, for operators whose daemon may not make tables: tables, views, rights.
"""

from __future__ import annotations

from contextlib import closing
from typing import Final

from taskqueue.core.model.task import KEY_BYTES, PROCESSING, RETRIED_MOST, STATE_NAMES, SUCCESS
from taskqueue.errors import StoreError
from taskqueue.store.postgres.packing import unpacked_number
from taskqueue.store.postgres.session import READS, Session, Statement, Target
from taskqueue.store.postgres.tables import TABLES_VERSION, completing, made, making, making_schema, table, tuning
from taskqueue.store.records import layout
from taskqueue.store.records.layout import DATED, PUT_OFF, RETRIED_AT

VIEWS_VERSION: Final = 5
VIEWS: Final = "views"
"""Row of ``versions`` with the version of the views."""

_COUNTS: Final = STATE_NAMES[1:]

_FUNCTIONS: Final = {
    "number_at(octets bytea, at int, width int) returns bigint": """
        select ('x' || lpad(encode(substring(octets from at + 1 for width), 'hex'), 16, '0'))::bit(64)::bigint""",
    # Bytes of the seq in a place that begins here; a place by newest has the complement, as a number below 0.
    "seq_at(octets bytea, at int) returns bytea": """
        select case when get_byte(octets, at + 8) < 128 then substring(octets from at + 9 for 8)
            else int8send(-1 - {schema}.number_at(octets, at + 8, 8)) end""",
    "float_at(octets bytea, at int) returns double precision": """
        select case
            when bits & 9223372036854775807 = 0 then 0
            when (bits >> 52) & 2047 = 2047 then 'infinity'::float8
            else sign(bits::float8) * (1 + (bits & 4503599627370495)::float8 / 4503599627370496)
                * power(2::float8, ((bits >> 52) & 2047) - 1023) end
        from (select {schema}.number_at(octets, at, 8) as bits) as it""",
    "short_float_at(octets bytea, at int) returns double precision": """
        select case
            when bits = 0 then 0
            else (1 + (bits & 8388607)::float8 / 8388608) * power(2::float8, ((bits >> 23) & 255) - 127) end
        from (select {schema}.number_at(octets, at, 4) as bits) as it""",
    "time_of(seconds double precision) returns timestamptz": """
        select case when seconds > 0 and seconds < 1e11 then to_timestamp(seconds) end""",
    # Bytes to skip from the head at this place, and the number of values inside it.
    "packed_next(octets bytea, at int, out step int, out inside int)": """
        select case
            when t < 160 or t between 192 and 195 or t >= 224 then 1
            when t < 192 then 1 + (t & 31)
            when t in (196, 217) then 2 + get_byte(octets, at + 1)
            when t in (197, 218) then 3 + {schema}.number_at(octets, at + 1, 2)::int
            when t in (198, 219) then 5 + {schema}.number_at(octets, at + 1, 4)::int
            when t = 199 then 3 + get_byte(octets, at + 1)
            when t = 200 then 4 + {schema}.number_at(octets, at + 1, 2)::int
            when t = 201 then 6 + {schema}.number_at(octets, at + 1, 4)::int
            when t in (204, 208) then 2
            when t in (205, 209, 212, 220, 222) then 3
            when t = 213 then 4
            when t in (202, 206, 210, 221, 223) then 5
            when t = 214 then 6
            when t = 215 then 10
            when t = 216 then 18
            else 9 end,
        case
            when t between 128 and 143 then 2 * (t & 15)
            when t between 144 and 159 then t & 15
            when t = 220 then {schema}.number_at(octets, at + 1, 2)::int
            when t = 221 then {schema}.number_at(octets, at + 1, 4)::int
            when t = 222 then 2 * {schema}.number_at(octets, at + 1, 2)::int
            when t = 223 then 2 * {schema}.number_at(octets, at + 1, 4)::int
            else 0 end
        from (select get_byte(octets, at) as t) as it""",
    # Place of the value that lies this number of values behind a place.
    "packed_behind(octets bytea, at int, count int) returns int": """
        with recursive walk (at, count) as (
            select at, count
            union all
            select walk.at + step, walk.count - 1 + inside
            from walk, lateral {schema}.packed_next(octets, walk.at)
            where walk.count > 0)
        select walk.at from walk where walk.count = 0""",
    # Place of an item in an array; null if it has no such item.
    "packed_item(octets bytea, index int) returns int": """
        select case when index < inside then {schema}.packed_behind(octets, step, index) end
        from {schema}.packed_next(octets, 0)""",
    # Bytes of a text or of octets.
    "packed_octets(octets bytea, at int) returns bytea": """
        select substring(octets from at + 1 + head for step - head)
        from (select step, case when t < 192 then 1 when t in (196, 217) then 2 when t in (197, 218) then 3 else 5 end
                as head
            from (select get_byte(octets, at) as t) as first, {schema}.packed_next(octets, at)) as it""",
    # PostgreSQL has no text with a NUL, which a task may have, so U+FFFD replaces it.
    "text_of(octets bytea) returns text": """
        select convert_from(case when position('\\x00'::bytea in octets) = 0 then octets else
            decode(replace(regexp_replace(encode(octets, 'hex'), '(..)', ' \\1', 'g'), ' 00', ' efbfbd'), 'hex')
        end, 'UTF8')""",
    "packed_text(octets bytea, at int) returns text": """
        select {schema}.text_of({schema}.packed_octets(octets, at))""",
    "packed_number(octets bytea, at int) returns double precision": """
        select case
            when t < 128 then t
            when t >= 224 then t - 256
            when t = 203 then {schema}.float_at(octets, at + 1)
            when t in (204, 205, 206, 207, 211) then {schema}.number_at(octets, at + 1, step - 1)::float8 end
        from (select get_byte(octets, at) as t, step from {schema}.packed_next(octets, at)) as it""",
    # Number under a name of a map; 0 if the map lacks the name.
    "packed_count(octets bytea, at int, name text) returns bigint": """
        with recursive walk (at, count) as (
            select at + 1, inside / 2 from {schema}.packed_next(octets, at)
            union all
            select {schema}.packed_behind(octets, walk.at, 2), walk.count - 1 from walk where walk.count > 0)
        select coalesce((
            select {schema}.packed_number(octets, {schema}.packed_behind(octets, walk.at, 1))::bigint
            from walk where walk.count > 0 and {schema}.packed_text(octets, walk.at) = name), 0)""",
    # First key behind all that begin with a prefix of four bytes.
    "after_prefix(prefix bytea) returns bytea": """
        select decode(lpad(to_hex({schema}.number_at(prefix, 0, 4) + 1), 8, '0'), 'hex')""",
}
"""Bodies of the functions by their heads; each is immutable, and null if an argument is."""

_RECORD_BYTES: Final = layout.RECORD.size
_PLACE: Final = _RECORD_BYTES - KEY_BYTES


def making_views(schema: str) -> list[str]:
    """Make statements that create the functions and views, or replace older ones."""
    functions = [
        f"create or replace function {schema}.{head} language sql immutable strict parallel safe as $f${body}$f$"
        for head, body in ((head, body.replace("{schema}", schema)) for head, body in _FUNCTIONS.items())
    ]
    return [
        *functions,
        f"create or replace view {schema}.projects as {_projects(schema)}",
        f"create or replace view {schema}.tasks as {_tasks(schema)}",
        f"create or replace view {schema}.attempts as {_attempts(schema)}",
        f"insert into {schema}.versions values ('{VIEWS}', {VIEWS_VERSION}) "
        f"on conflict (name) do update set number = {VIEWS_VERSION}",
    ]


def _projects(schema: str) -> str:
    counts = ", ".join(
        f"{schema}.packed_count(value, {schema}.packed_item(value, 4), '{name}') as {name}" for name in _COUNTS
    )
    return f"""
        select {schema}.number_at(key, 0, 4) as number,
            {schema}.packed_text(value, {schema}.packed_item(value, 1)) as name,
            {schema}.packed_text(value, {schema}.packed_item(value, 2)) as state, {counts}
        from {table(schema, layout.PROJECTS)}"""


def _stored(schema: str, *families: str) -> str:
    """Make SQL for projects with the stored prefixes of their keys in some families."""
    columns = "".join(f", coalesce({family}.stored_as, project.key) as in_{family}" for family in families)
    joins = "".join(
        f" left join {schema}.prefixes {family} on {family}.family = '{family}' and {family}.prefix = project.key"
        for family in families
    )
    return f"""
        select {schema}.packed_text(project.value, {schema}.packed_item(project.value, 1)) as name,
            coalesce({schema}.packed_number(project.value, {schema}.packed_item(project.value, 11)), 0)::bigint
                as cleared{columns}
        from {table(schema, layout.PROJECTS)} project{joins}"""


def _tasks(schema: str) -> str:
    """Make SQL for tasks.

    A leased task's true record is in the lease; a task dispatched by the turn that made it has no other record.
    """
    leases = layout.ORDERS[PROCESSING]
    ids, specs, leased = (table(schema, family) for family in (layout.IDS, layout.SPECS, leases))
    states = ", ".join(f"'{name}'" for name in STATE_NAMES[1:])
    record = f"{schema}.packed_octets(lease.value, {schema}.packed_item(lease.value, 0))"
    put_off = f"get_byte(record, {RETRIED_AT}) & {PUT_OFF} > 0"
    dated = f"get_byte(record, {RETRIED_AT}) & {DATED} > 0"
    fixed_bytes = f"{_RECORD_BYTES} + case when {dated} then 4 else 0 end"
    mark = f"'\\x{layout.JOB_MARK.hex()}'::bytea"
    return f"""
        with stored as materialized ({_stored(schema, layout.IDS, layout.SPECS, leases)}),
        known as (
            select stored.name, stored.cleared, stored.in_{layout.SPECS},
                {schema}.text_of(substring(id.key from 5)) as taskid, lease.key is not null as is_leased,
                case when lease.key is null then id.value else {record} end as record
            from stored
            join {ids} id on id.key >= in_{layout.IDS} and id.key < {schema}.after_prefix(in_{layout.IDS})
                and octet_length(id.value) >= {_RECORD_BYTES}
            left join {leased} lease
                on lease.key = in_{leases} || '\\x0000000000000000' || {schema}.seq_at(id.value, {_PLACE})
            union all
            select stored.name, stored.cleared, stored.in_{layout.SPECS},
                {schema}.packed_text(lease.value, {schema}.packed_item(lease.value, 1)), true, {record}
            from stored
            join {leased} lease on lease.key >= in_{leases} and lease.key < {schema}.after_prefix(in_{leases})
            where not exists (select 1 from {ids} id where id.key = in_{layout.IDS}
                || {schema}.packed_octets(lease.value, {schema}.packed_item(lease.value, 1))
                and octet_length(id.value) >= {_RECORD_BYTES})),
        named as (
            select *, case when is_leased then 3 else get_byte(record, 0) & 7 end as number,
                {schema}.number_at(record, {_PLACE}, 8) as at, {schema}.seq_at(record, {_PLACE}) as seq,
                substring(record from {fixed_bytes} + 1
                    + case when {put_off} then 2 else 0 end
                    + case when get_byte(record, 0) & 8 > 0 then 5 else 0 end
                    + case when get_byte(record, 0) & 64 > 0 then 11 else 0 end
                    + case when get_byte(record, 0) & 32 > 0 then 4 else 0 end) as names
            from known)
        select named.name as project, named.taskid, (array[{states}])[named.number] as state,
            {schema}.packed_text(spec.value, {schema}.packed_item(spec.value, 1)) as url,
            ({schema}.number_at(record, 2, 4)::bit(32))::int as priority,
            ({schema}.number_at(record, 6, 4) & {RETRIED_MOST})::int as retried,
            (({schema}.number_at(record, 6, 4) >> 28) & 15)::int as crashes,
            case when named.number = 2 then to_timestamp(named.at / 1e6) end as due_at,
            {schema}.time_of({schema}.float_at(record, 26)) as last_crawl_at,
            case when named.number in (4, 5, 6) then to_timestamp(named.at / 1e6) end as ended_at,
            {schema}.text_of(substring(names for position({mark} in names || {mark}) - 1)) as itag,
            case when {put_off} then {schema}.number_at(record, {fixed_bytes}, 2)::int else 0 end as put_off,
            case when {dated} then to_timestamp({schema}.number_at(record, {_RECORD_BYTES}, 4)) end as pushed_at,
            {schema}.text_of(substring(names from position({mark} in names || {mark}) + 1)) as job
        from named
        left join {specs} spec on spec.key = named.in_{layout.SPECS} || named.seq
        where named.number in (4, 5, 6) or {schema}.number_at(named.seq, 0, 8) > named.cleared"""


def _attempts(schema: str) -> str:
    """Make SQL for attempts. Most are in the history; the last success of a task is in the order of successes."""
    success = layout.ORDERS[SUCCESS]
    history, successes = table(schema, layout.HISTORY), table(schema, success)
    item = f"{schema}.packed_item(value, "
    return f"""
        with stored as materialized ({_stored(schema, layout.HISTORY, success)})
        select name as project, {schema}.text_of(substring(key from 6 for get_byte(key, 4))) as taskid,
            {schema}.time_of({schema}.packed_number(value, {item}0))) as ended_at,
            {schema}.packed_text(value, {item}1)) as outcome,
            coalesce({schema}.packed_text(value, {item}2)), '') as fetcher,
            coalesce({schema}.packed_number(value, {item}3)), 0) as seconds,
            coalesce({schema}.packed_text(value, {item}4)), '') as error,
            coalesce({schema}.packed_text(value, {item}5)), '') as kind
        from stored join {history} on key >= in_{layout.HISTORY} and key < {schema}.after_prefix(in_{layout.HISTORY})
        union all
        select name, {schema}.text_of(substring(value from 7 for get_byte(value, 1))),
            to_timestamp({schema}.number_at(key, 4, 8) / 1e6), 'success',
            {schema}.text_of(substring(value from 7 + get_byte(value, 1))), {schema}.short_float_at(value, 2), '', ''
        from stored join {successes} on key >= in_{success} and key < {schema}.after_prefix(in_{success})
            and get_byte(value, 0) = 255"""


def make_views(target: Target, session: Session) -> str:
    """Make the views if they are missing or older; return the reason if they can't be made, else an empty text.

    Raises:
        StoreError: the database failed.
    """
    known = f"select number from {target.schema}.versions where name = '{VIEWS}'"
    rows = session.run("read", [Statement(known)])[0]
    if rows and unpacked_number(rows[0][0] or b"") >= VIEWS_VERSION:
        return ""
    try:
        with closing(Session(target, READS)) as other:
            other.run("make", map(Statement, ["begin", *making_views(target.schema), "commit"]))
    except StoreError as error:
        return str(error)
    return ""


def script(schema: str) -> str:
    """Write a script for psql that makes everything, with the rights of a daemon that may not make tables itself."""
    return "\n".join(
        [
            f"-- The tables of taskqueue, version {TABLES_VERSION}. Running this again adds only missing parts.",
            "begin;",
            f"{making_schema(schema)};",
            *(f"{statement};" for statement in (*making(schema), *completing(schema))),
            f"{made(schema)};",
            *(f"{statement};" for statement in making_views(schema)),
            "commit;",
            "",
            "-- How full pages are made, and when dead rows are removed; other engines than PostgreSQL may refuse it.",
            *(f"{statement};" for statement in tuning(schema)),
            "",
            "-- The rights of a daemon whose role, such as taskqueue, is not the owner:",
            f"-- grant usage on schema {schema} to taskqueue;",
            f"-- grant select, insert, update, delete on all tables in schema {schema} to taskqueue;",
            "-- The rights of a producer that inserts tasks into the inbox, and of a role that only reads:",
            f"-- grant usage on schema {schema} to producer; grant insert on {schema}.inbox to producer;",
            f"-- grant usage on schema {schema} to reader; grant select on all tables in schema {schema} to reader;",
        ]
    )
