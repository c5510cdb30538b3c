"""Makes the tables of a store, and checks what is there already."""

from __future__ import annotations

from contextlib import closing

from taskqueue.errors import DatabaseError, FormatError, StoreError
from taskqueue.store.postgres import views
from taskqueue.store.postgres.fence import gone
from taskqueue.store.postgres.packing import unpacked_number
from taskqueue.store.postgres.prefixes import Prefixes
from taskqueue.store.postgres.schema import TABLES, TABLES_VERSION, completing, made, making, making_schema, tuning
from taskqueue.store.postgres.session import READS, KeyTaken, NotAllowed, Session, Statement
from taskqueue.store.postgres.target import Target


def make_tables(target: Target) -> bool:
    """Make the tables if the schema has none, and complete older ones; rights to do so are needed only then. Returns
    whether it had none.

    Raises:
        FormatError: a newer version has made them.
        StoreError: the role may not, or the database has another encoding than UTF-8.
    """
    found = _version(target)
    if found is None or found < TABLES_VERSION:
        _make(target)
    return found is None


def find_tables(target: Target) -> None:
    """See that the tables are there which this process has used.

    Raises:
        FormatError: a newer version has made them.
        Damaged: there are none.
        StoreError: they can't be looked for.
    """
    if _version(target) is None:
        raise gone(target.where, f"there are no tables in schema {target.schema} any more")


def _version(target: Target) -> int | None:
    """The version of the tables, which is none that this program can't use; None: there are no tables.

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
    """A database of another encoding has no room for the texts of tasks and reasons, or does not know what they are."""
    (encoding,) = session.run("read", [Statement("select current_setting('server_encoding')")])[0][0]
    if encoding != b"UTF8":
        raise StoreError(
            f"{where}: its encoding is {(encoding or b'').decode()}, not UTF8; "
            "make a database with: createdb --encoding UTF8 --template template0 NAME"
        )


def tables_version(session: Session, schema: str) -> int | None:
    """The version of the tables; None: there are none.

    Raises:
        StoreError: they can't be read.
    """
    named = f"select 1 from information_schema.tables where table_schema = '{schema}' and table_name = 'versions'"
    if not session.run("read", [Statement(named)])[0]:
        return None
    rows = session.run("read", [Statement(f"select number from {schema}.versions where name = '{TABLES}'")])[0]
    return unpacked_number(rows[0][0] or b"") if rows else None


def make_views(target: Target, session: Session) -> str:
    """Make the views for people if there are none, or older ones; returns why that could not be, or nothing.

    Raises:
        StoreError: the database failed.
    """
    known = f"select number from {target.schema}.versions where name = '{views.VIEWS}'"
    rows = session.run("read", [Statement(known)])[0]
    if rows and unpacked_number(rows[0][0] or b"") >= views.VIEWS_VERSION:
        return ""
    try:
        with closing(Session(target, READS)) as other:
            other.run("make", map(Statement, ["begin", *views.making(target.schema), "commit"]))
    except StoreError as error:
        return str(error)
    return ""


def load_prefixes(session: Session, schema: str) -> Prefixes:
    """Which ranges are retired or stored elsewhere."""
    rows = session.run("read", [Statement(f"select family, stored_as, prefix from {schema}.prefixes")])[0]
    return Prefixes(((family or b"").decode(), stored_as or b"", prefix) for family, stored_as, prefix in rows)


def _make(target: Target) -> None:
    """Make what is missing; only at the end is it said to be there, so that a start that is cut short harms nobody.

    A daemon of an older version that still runs writes no checksums, and is fenced before any row has one.
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
                f"{error}, so its tables can't be made; let somebody run what "
                "`taskqueue store init --print-sql` prints, who may make them and says there what this role may do"
            ) from None
        except KeyTaken as error:
            raise DatabaseError(
                f"{error}; it is made by somebody else at this moment", "its tables are being made"
            ) from None
        session.offer([Statement(statement) for statement in tuning(target.schema)])
        session.run("make", [Statement(made(target.schema))])
