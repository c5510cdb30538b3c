"""A read-only view of a store in a database at one moment, whether or not a daemon is running.

It is a transaction that sees the state at its beginning. While it is open the database keeps all old versions of rows,
so it should not stay open for hours, except on a standby, where that hinders no daemon. An older format is refused,
because migrating it would be a change.
"""

from __future__ import annotations

from collections.abc import Sequence

from taskqueue.errors import Damaged, FormatError, StoreError, TaskQueueError
from taskqueue.store.contract import Entry, Family
from taskqueue.store.damaged_rows import DamagedRows
from taskqueue.store.postgres.fence import read_position
from taskqueue.store.postgres.packing import unpacked_number
from taskqueue.store.postgres.reader import Reader
from taskqueue.store.postgres.session import SNAPSHOT, Session, Statement, Target, reading
from taskqueue.store.postgres.tables import TABLES_VERSION, load_prefixes, table, tables_version
from taskqueue.store.records.format import EPOCH_KEY, FORMAT_KEY, META, refuse_other
from taskqueue.store.records.reading import stored_number


class DatabaseSnapshot:
    """Read-only view of a store. Close it.

    Attributes:
        path: address of the store, for messages.
        epoch: newest epoch that was begun in it.
    """

    def __init__(self, target: Target, damaged: DamagedRows | None = None) -> None:
        """Begin the view.

        Args:
            damaged: rows to skip, see ``Reader``.

        Raises:
            Unreadable: the store's records about itself are damaged.
            StoreError: there is no store, or it can't be read.
            FormatError: it has another format.
        """
        self.path = target.where
        self._schema = target.schema
        self._session = Session(reading(target), SNAPSHOT)
        try:
            self._session.run("read", [Statement("begin isolation level repeatable read read only")])
            _refuse_other_tables(tables_version(self._session, target.schema), target.where)
            self._reader = Reader(self._session, target.schema, load_prefixes(self._session, target.schema), damaged)
            if self.get(META, [FORMAT_KEY])[0] is None:
                raise StoreError(
                    f"{target.where}: its tables are empty; start a daemon with this address to begin a store"
                )
            refuse_other(self, target.where)
            self.epoch = stored_number(self, EPOCH_KEY, 0)
        except TaskQueueError:
            self.close()
            raise

    def get(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of keys; see ``Store.get``."""
        return self._reader.get(family, keys)

    def scan(self, family: Family, start: bytes, end: bytes, limit: int) -> list[Entry]:
        """Return entries in a range of keys; see ``Store.scan``."""
        return self._reader.scan(family, start, end, limit)

    def damage(self) -> str:
        """Describe damage of the rows that decide who may write; empty if there is none."""
        try:
            read_position(self._session, self._schema)
        except Damaged as error:
            return str(error)
        return ""

    def keys(self, family: Family) -> int:
        """Estimate the number of keys in a family, from counted changes or else from the last vacuum."""
        counted = "select coalesce(nullif(pg_stat_get_live_tuples(oid), 0), greatest(reltuples::int8, 0)) from pg_class"
        return self._number(f"{counted} where oid = '{self._name(family)}'::regclass")

    def disk_bytes(self, family: Family) -> int:
        """Return the bytes of a family's table with its index, dead rows and free room included."""
        return self._number(f"select pg_total_relation_size('{self._name(family)}')")

    def close(self) -> None:
        """End the view."""
        self._session.close()

    def _name(self, family: Family) -> str:
        return table(self._schema, family)

    def _number(self, sql: str) -> int:
        return unpacked_number(self._session.run("read", [Statement(sql)])[0][0][0] or b"")


def _refuse_other_tables(version: int | None, where: str) -> None:
    if version is None:
        raise StoreError(f"{where}: there is no store; start a daemon with this address to make one")
    if version != TABLES_VERSION:
        raise FormatError(
            f"{where}: its tables have version {version}, not {TABLES_VERSION}; "
            "a daemon of this version brings older ones up to date when it starts"
        )
