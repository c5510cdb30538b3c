"""Who writes in a store: said by the name of the connection, so that no second one takes over by mistake.

The fence keeps two writers apart in any case, but it does so by ending the first one. A daemon that is started means to
take over; a command that brings tasks in does not.
"""

from __future__ import annotations

from contextlib import closing
from time import sleep
from typing import Final

from taskqueue.errors import StoreError
from taskqueue.store.postgres.session import READS, Session, Statement
from taskqueue.store.postgres.target import Target

LOOKS: Final = 20
LOOK_SECONDS: Final = 0.1
"""A connection that was closed just now may be there for another moment."""


def writer_name(schema: str) -> str:
    """What the connection that writes is called, of 63 characters at most."""
    return f"taskqueue/{schema}"


def refuse_second_writer(target: Target) -> None:
    """See that no other process writes in the store.

    Raises:
        StoreError: one does, or the database can't be asked.
    """
    sql = (
        "select pid::text, coalesce(client_addr::text, 'this machine') from pg_stat_activity "
        f"where application_name = '{writer_name(target.schema)}' and datname = current_database()"
    )
    with closing(Session(target, READS)) as session:
        for _ in range(LOOKS):
            rows = session.run("read", [Statement(sql)])[0]
            if not rows:
                return
            sleep(LOOK_SECONDS)
    pid, address = ((value or b"").decode() for value in rows[0])
    raise StoreError(
        f"{target.where}: a scheduler uses this store, from {address}; stop it first "
        f"(if its machine is gone: select pg_terminate_backend({pid}))"
    )
