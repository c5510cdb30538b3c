"""taskqueue in the contest, with its store in PostgreSQL: a real daemon and a real server, both on the server's cores.

The setting is that of ``ours``. The server has its defaults, except a WAL as
long as operators would set it for this load.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Final

from benchmarks.contest import Load
from benchmarks.peers import ours, postgres_server
from benchmarks.peers.ours import Ours
from benchmarks.peers.postgres_server import Postgres

SETTINGS: Final = ("shared_buffers=512MB", "max_wal_size=4GB", "checkpoint_timeout=15min")

WAL: Final = "select pg_current_wal_insert_lsn() - '0/0'"


class OnPostgres(Ours):
    """Daemon that implements ``Server``; its meters include the database server."""

    def __init__(self, said: ours.Said, core: str, postgres: Postgres) -> None:
        super().__init__(said.config, core, said.python, store=postgres.address)
        self._postgres = postgres

    def meters(self) -> dict[str, float]:
        """Fetch meters of the loop, CPU seconds of the database server, and bytes of its log."""
        spent = {"server_seconds": self._postgres.cpu_seconds(), "wal_bytes": float(self._postgres.ask(WAL))}
        return super().meters() | spent


def unavailable() -> str:
    return postgres_server.unavailable()


@contextmanager
def _served(setting: str, core: str) -> Iterator[OnPostgres]:
    with ExitStack() as stack:
        postgres = stack.enter_context(Postgres(SETTINGS, core))
        yield stack.enter_context(OnPostgres(ours.Said.of(setting), core, postgres))


def serve(setting: str, core: str) -> AbstractContextManager[OnPostgres]:
    return _served(setting, core)


def produce(address: str, load: Load) -> dict[str, Any]:
    return ours.produce(address, load)


def fetch(address: str, load: Load) -> dict[str, Any]:
    return ours.fetch(address, load)
