"""The SQL that makes a store by hand, for somebody whose daemon may not make tables."""

from __future__ import annotations

from taskqueue.store.postgres import views
from taskqueue.store.postgres.schema import TABLES_VERSION, completing, made, making, making_schema, tuning


def script(schema: str) -> str:
    """All of it as a text for psql, with the rights that a daemon needs which did not make the tables itself."""
    return "\n".join(
        [
            f"-- The tables of taskqueue, version {TABLES_VERSION}. To run this again completes what is there.",
            "begin;",
            f"{making_schema(schema)};",
            *(f"{statement};" for statement in (*making(schema), *completing(schema))),
            f"{made(schema)};",
            *(f"{statement};" for statement in views.making(schema)),
            "commit;",
            "",
            "-- How full pages are made, and when dead rows are removed; other engines than PostgreSQL may refuse it.",
            *(f"{statement};" for statement in tuning(schema)),
            "",
            "-- The rights of a daemon whose role, such as taskqueue, is not the owner:",
            f"-- grant usage on schema {schema} to taskqueue;",
            f"-- grant select, insert, update, delete on all tables in schema {schema} to taskqueue;",
            "-- Those of a producer that inserts tasks into the inbox, and of somebody who only looks:",
            f"-- grant usage on schema {schema} to producer; grant insert on {schema}.inbox to producer;",
            f"-- grant usage on schema {schema} to looker; grant select on all tables in schema {schema} to looker;",
        ]
    )
