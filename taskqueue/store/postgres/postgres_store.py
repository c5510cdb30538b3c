"""A Store in PostgreSQL: a schema with a table for each family, and a fence.

    connection 1    fence, drops, deletes, puts, commit: one round trip, which does not wait for the server's disk
    connection 2    barrier: a commit that does wait, and covers all earlier writes (P6, P7)

The fence is a row with the daemon's epoch and the number of its last turn. Each write moves it from the turn before to
its own, or fails: so a daemon that was replaced writes nothing, and one whose database has lost turns, as may happen
when an asynchronous standby takes over, notices at its next write. Barriers and looks into the inbox check it, too.

After a StoreError close this store and open another: whether its last write happened is unknown, as after a crash of
the machine.

The store knows without asking which entries are new: a task is looked up before it is made, so its key was found
absent, and stays absent until it is written, since only one daemon writes. KEYS_MOST absent keys are remembered, in two
generations: the older one is forgotten when the younger one is full.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from taskqueue.errors import DatabaseError, Fenced, StoreError, TaskQueueError
from taskqueue.store.contract import Batch, Entry, Family
from taskqueue.store.damaged_rows import DamagedRows
from taskqueue.store.postgres.checksums import checksums
from taskqueue.store.postgres.fence import (
    Position,
    Progress,
    barrier_sql,
    beginning,
    fence_sql,
    look_sql,
    refusal,
    writer_name,
)
from taskqueue.store.postgres.inbox import CHANNEL, InboxReader, InboxRow, taking
from taskqueue.store.postgres.packing import packed_array, packed_checksums, packed_number, unpacked_number
from taskqueue.store.postgres.prefixes import Retired
from taskqueue.store.postgres.reader import Reader
from taskqueue.store.postgres.session import BARRIERS, TURNS, KeyTaken, Session, Statement, Target
from taskqueue.store.postgres.tables import SCHEDULER, find_tables, load_prefixes, make_tables, table
from taskqueue.store.postgres.views import make_views
from taskqueue.store.records.epochs import SKIPPED_EPOCHS, begin_unclean, epoch_batch, next_epoch, refuse_older
from taskqueue.store.records.format import EPOCH_KEY, Migrations, refuse_newer, upgrade
from taskqueue.store.records.layout import DATABASE_FAMILIES, IDS, ORDERS, SPECS
from taskqueue.store.records.migrations import MIGRATIONS
from taskqueue.store.records.reading import stored_number

DROPPED_AT_ONCE: Final = 2000
"""Rows of a range that are deleted in the turn that drops it; a longer range is retired."""

FREED_AT_ONCE: Final = 1000
"""Rows of retired ranges that a write deletes: about a millisecond of the server's time."""

MOSTLY_NEW: Final = frozenset((*ORDERS.values(), SPECS))
"""Families whose entries are hardly ever overwritten; of ``ids`` the store knows which entries are new.

Inserting them without checking for old ones saves a third of a turn, because the server need not mark each as a try
first. If one exists already, the turn is written again.
"""

CAREFUL_TURNS: Final = 64
"""Turns that check for old entries, after one that should have."""

_BEGIN: Final = Statement("begin")
_COMMIT: Final = Statement("commit")
_ROLLBACK: Final = Statement("rollback")


class PostgresStore:
    """Store in a schema of a database; ``contract`` has the promises of its methods.

    Attributes:
        where: server, database and schema, for messages.
        views_refused: reason why the SQL views could not be made; empty if they exist.
        lost_turns: turns of this process that the database had confirmed and has lost.
        lost_synced_turns: lost turns that had been synced.
        damaged: rows that reads skip.
    """

    def __init__(
        self, target: Target, *, migrations: Migrations = MIGRATIONS, progress: Progress | None = None
    ) -> None:
        """Connect, and make missing tables.

        Args:
            progress: progress of this process's earlier stores; None if there were none.

        Raises:
            DatabaseError: the database can't be reached, or is not ready.
            Fenced: another daemon has begun an epoch since.
            Damaged: this process had a store there, which is gone.
            FormatError: its format is newer than this version's, or too old to be migrated.
            StoreError: the database refused.
        """
        self.where = target.where
        self._target = target
        self._progress = progress or Progress()
        self.damaged = DamagedRows()
        names = {family: table(target.schema, family) for family in DATABASE_FAMILIES}
        insert = {
            # Three sets side by side instead of one of rows, which the server would store first, save a fourteenth of a
            # turn.
            family: f"insert into {name} (key, value, crc) "
            "select unnest($1::bytea[]), unnest($2::bytea[]), unnest($3::int4[])"
            for family, name in names.items()
        }
        self._insert = {family: insert[family] for family in (*MOSTLY_NEW, IDS)}
        self._absent_ids = AbsentKeys()
        self._put = {
            family: f"{sql} on conflict (key) do update set value = excluded.value, crc = excluded.crc"
            for family, sql in insert.items()
        }
        self._careful_turns = 0
        self._last_barrier = 0
        self._delete = {family: f"delete from {name} where key = any($1::bytea[])" for family, name in names.items()}
        self._delete_range = {
            family: f"with gone as (delete from {name} where key in (select key from {name} where key >= $1::bytea "
            "and key < $2::bytea order by key limit $3::int8) returning key) "
            "select count(*), (select key from gone order by key desc limit 1) from gone"
            for family, name in names.items()
        }
        self._fence, self._barrier = fence_sql(target.schema), barrier_sql(target.schema)
        self._look = look_sql(target.schema)
        if self._progress.position is None:
            make_tables(target)
        else:
            find_tables(target)
        self._turns = Session(target, {**TURNS, "application_name": writer_name(target.schema)})
        try:
            self._barriers = Session(target, BARRIERS)
        except TaskQueueError:
            self._turns.close()
            raise
        try:
            self._turns.offer([Statement(f"listen {target.schema}_{CHANNEL}")])
            self.views_refused = make_views(target, self._turns)
            self._prefixes = load_prefixes(self._turns, target.schema)
            self._reader = Reader(self._turns, target.schema, self._prefixes, self.damaged)
            self._inbox = InboxReader(self._turns, target.schema)
            self._position = self._progress.compare(self._turns, target.schema, self.where)
            refuse_newer(self, self.where)
            upgrade(self, self.where, migrations)
            self.lost_turns = self._progress.lost_turns
            self.lost_synced_turns = self._progress.lost_synced_turns
            if self.lost_turns:
                # An epoch is synced when it begins, so turns of other epochs were not safe.
                skipped = SKIPPED_EPOCHS if self.lost_synced_turns else 0
                begin_unclean(self, self.where, self._progress.lost_after, skipped)
                self._progress.forget_losses()
        except TaskQueueError:
            with suppress(StoreError):
                self.close()
            raise

    def begin(self) -> int:
        schema = self._target.schema
        locked = f"select epoch from {schema}.schedulers where id = {SCHEDULER} for update"
        _, rows = self._turns.run("write", [_BEGIN, Statement(locked)])
        stored = unpacked_number(rows[0][0] or b"") if rows else 0
        epoch = next_epoch(max(stored, stored_number(self, EPOCH_KEY, 0)), self.where)
        begun = beginning(schema, epoch, self._progress.owner)
        self._turns.run("write", [begun, *self._puts(epoch_batch(epoch)), _COMMIT])
        self._confirm(Position(epoch, 0))
        self._progress.begun_by = self._progress.owner
        self.sync()
        return epoch

    def get(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        values = self._reader.get(family, keys)
        if family == IDS:
            self._absent_ids.note(keys, values)
        return values

    def scan(self, family: Family, start: bytes, end: bytes, limit: int) -> list[Entry]:
        return self._reader.scan(family, start, end, limit)

    def scan_back(self, family: Family, start: bytes, end: bytes, limit: int) -> list[Entry]:
        return self._reader.scan_back(family, start, end, limit)

    def write(self, epoch: int, batch: Batch) -> None:
        refuse_older(epoch, self._position.epoch, self.where)
        turn = self._position.turn
        fenced = Statement(self._fence, (packed_number(epoch), packed_number(turn)))
        try:
            if batch.drops:
                self._write_with_drops(fenced, batch)
            elif self._prefixes.retired:
                self._write_and_free(fenced, batch)
            else:
                self._write_plainly(fenced, batch)
        except Fenced:
            raise refusal(self._target, self._progress) from None
        self._confirm(Position(epoch, turn + 1))

    def sync(self) -> None:
        position = self._position
        values = (position.epoch, position.turn, self._last_barrier)
        try:
            statement = Statement(self._barrier, tuple(map(packed_number, values)))
            ((_, number),) = self._barriers.run("sync", [statement])[0]
        except Fenced:
            raise refusal(self._target, self._progress) from None
        if warning := self._barriers.warning:
            # The turn is committed here, but the wait for the standby was cancelled.
            raise DatabaseError(f"{self.where}: could not sync the store: {warning}", "the standby has not confirmed")
        self._last_barrier = unpacked_number(number or b"")
        self._progress.synced = position

    def inbox_rows(self, without: Collection[bytes], largest: int) -> list[InboxRow]:
        """Read some rows of the inbox; see ``InboxReader.rows``.

        Raises:
            Fenced: another daemon has begun an epoch.
            StoreError: they can't be read, or the database has lost changes.
        """
        position = map(packed_number, self._position)
        look = Statement(self._look, (*position, self._progress.begun_by))
        seen, rows = self._inbox.rows(look, without, largest)
        if not seen:
            raise refusal(self._target, self._progress)
        return rows

    @property
    def inbox_has_more(self) -> bool:
        """Whether the last look into the inbox left out a part of it, which the next ones read."""
        return self._inbox.has_left_out

    def fileno(self) -> int:
        """Return the descriptor that is readable when a producer may have notified; see ``hear``."""
        return self._turns.fileno()

    def hear(self) -> None:
        """Read notifications.

        Raises:
            StoreError: the connection has failed.
        """
        self._turns.hear()

    def has_heard(self) -> bool:
        """Whether producers have notified since the last call.

        Raises:
            StoreError: the connection has failed.
        """
        return self._turns.has_heard()

    @property
    def has_retired(self) -> bool:
        """Whether rows of dropped ranges remain; each write deletes some of them, even an empty one."""
        return bool(self._prefixes.retired)

    def levels(self) -> dict[int, list[int]]:
        return {}

    def log_bytes(self) -> int:
        return 0

    def close(self) -> None:
        self._turns.close()
        self._barriers.close()

    def _write_plainly(self, fenced: Statement, batch: Batch) -> None:
        """Write a batch in one round trip, or in two if an entry exists that was expected to be new."""
        if not self._careful_turns:
            try:
                self._turns.run("write", self._transaction(fenced, batch, self._inserts(batch)))
                return
            except KeyTaken:
                self._turns.run("write", [_ROLLBACK])
                self._careful_turns = CAREFUL_TURNS
        self._turns.run("write", self._transaction(fenced, batch, self._puts(batch)))
        self._careful_turns -= 1

    def _confirm(self, position: Position) -> None:
        self._position = self._progress.position = position

    # ------------------------------------------------------------------------------------------- statements

    def _transaction(self, fenced: Statement, batch: Batch, puts: Iterable[Statement]) -> Iterator[Statement]:
        yield _BEGIN
        yield fenced
        yield from self._rest(batch, puts)

    def _rest(self, batch: Batch, puts: Iterable[Statement]) -> Iterator[Statement]:
        """Yield the statements of a transaction that follow its drops."""
        for family, keys in batch.deletes.items():
            if keys:
                yield Statement(self._delete[family], (packed_array(self._stored(family, keys)),))
        yield from puts
        if batch.taken is not None:
            yield from taking(self._target.schema, batch.taken)
        yield _COMMIT

    def _puts(self, batch: Batch) -> Iterator[Statement]:
        for family, entries in batch.puts.items():
            if family == IDS:
                self._absent_ids.forget([key for key, _ in entries])
            if entries:
                yield self._put_with(self._put[family], family, entries)

    def _inserts(self, batch: Batch) -> Iterator[Statement]:
        """Make statements that put entries, and fail if an entry exists that should be new."""
        for family, entries in batch.puts.items():
            if family == IDS:
                new, entries = self._absent_ids.divide(entries)
                if new:
                    yield self._put_with(self._insert[IDS], family, new)
            if entries:
                sql = self._insert[family] if family in MOSTLY_NEW else self._put[family]
                yield self._put_with(sql, family, entries)

    def _put_with(self, sql: str, family: Family, entries: Sequence[Entry]) -> Statement:
        """Make a statement that puts entries.

        Only the last value of a key counts: the database would refuse to write a row twice.
        """
        last = dict(entries)
        stored, written = self._stored(family, last), packed_checksums(checksums(family, last, last.values()))
        return Statement(sql, (packed_array(stored), packed_array(last.values()), written))

    def _stored(self, family: Family, keys: Collection[bytes]) -> Collection[bytes]:
        if family not in self._prefixes.moved:
            return keys
        return [self._prefixes.stored_key(family, key) for key in keys]

    # ------------------------------------------------------------------------------------------------ drops

    def _write_with_drops(self, fenced: Statement, batch: Batch) -> None:
        """Write a batch with drops in two steps, because new keys depend on the prefixes that the drops move."""
        self._turns.run("write", [_BEGIN, fenced])
        retired = [statement for dropped in batch.drops for statement in self._drop(*dropped)]
        self._turns.run("write", [*retired, *self._rest(batch, self._puts(batch))])

    def _drop(self, family: Family, start: bytes, end: bytes) -> list[Statement]:
        """Delete a range; return statements that retire it if it is too long for that."""
        prefix = self._prefixes.prefix_of(family, start, end)
        for segment in list(self._prefixes.segments(family, start, end)):
            start, deleted = segment.start, DROPPED_AT_ONCE
            while deleted == DROPPED_AT_ONCE:
                deleted, last = self._delete_some(family, start, segment.end, DROPPED_AT_ONCE)
                start = last + b"\0"
                if prefix and deleted == DROPPED_AT_ONCE:
                    retired, stored_as = self._prefixes.retire(family, prefix)
                    return [self._note(retired, None), self._note(Retired(family, stored_as), prefix)]
        return []

    def _write_and_free(self, fenced: Statement, batch: Batch) -> None:
        """Write a batch, and delete some retired rows."""
        self._turns.run("write", [_BEGIN, fenced])
        retired, start = next(iter(self._prefixes.retired.items()))
        _, end = retired.range()
        freed, last = self._delete_some(retired.family, start, end, FREED_AT_ONCE)
        noted = []
        if freed == FREED_AT_ONCE:
            self._prefixes.freed_up_to(retired, last)
        else:
            self._prefixes.freed(retired)
            noted = [self._forget(retired), *self._put_back(retired.family)]
        self._turns.run("write", [*noted, *self._rest(batch, self._puts(batch))])

    def _put_back(self, family: Family) -> list[Statement]:
        """Store prefixes of the family as themselves again, if nothing is stored there."""
        statements = []
        for prefix, stored_as in self._prefixes.idle_moves(family):
            moved = Retired(family, stored_as)
            if not self.scan(family, *Retired(family, prefix).range(), 1):
                self._prefixes.put_back(family, prefix)
                statements.append(self._forget(moved))
        return statements

    def _delete_some(self, family: Family, start: bytes, end: bytes, most: int) -> tuple[int, bytes]:
        """Delete the first rows of a range; return their number and the last key.

        The next call begins behind that key: the server may have to keep the rows for an old snapshot, and would skip
        them all.
        """
        statement = Statement(self._delete_range[family], (start, end, packed_number(most)))
        ((deleted, last),) = self._turns.run("write", [statement])[0]
        return unpacked_number(deleted or b""), last or b""

    def _note(self, retired: Retired, prefix: bytes | None) -> Statement:
        """Record that a range is retired, or, with a prefix, that the prefix is stored there."""
        name = f"{self._target.schema}.prefixes"
        sql = (
            f"insert into {name} values ($1::text, $2::bytea, {'null' if prefix is None else '$3::bytea'}) "
            "on conflict (family, stored_as) do update set prefix = excluded.prefix"
        )
        return Statement(sql, (retired.family.encode(), retired.stored_as, *([] if prefix is None else [prefix])))

    def _forget(self, retired: Retired) -> Statement:
        sql = f"delete from {self._target.schema}.prefixes where family = $1::text and stored_as = $2::bytea"
        return Statement(sql, (retired.family.encode(), retired.stored_as))


KEYS_MOST: Final = 1 << 15
"""Keys per generation at most; a key has some tens of bytes, so both take some megabytes."""


class AbsentKeys:
    """Keys of one family that a read has found absent."""

    def __init__(self) -> None:
        self._young: set[bytes] = set()
        self._old: set[bytes] = set()

    def note(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Remember the keys without a value."""
        if None not in values:
            return
        self._young.update([key for key, value in zip(keys, values, strict=True) if value is None])
        if len(self._young) > KEYS_MOST:
            self._old, self._young = self._young, set()

    def divide(self, entries: Iterable[Entry]) -> tuple[list[Entry], list[Entry]]:
        """Divide entries that are about to be written into new ones and others, and forget their keys."""
        new: list[Entry] = []
        others: list[Entry] = []
        for entry in entries:
            (new if self._take(entry[0]) else others).append(entry)
        return new, others

    def forget(self, keys: Collection[bytes]) -> None:
        """Forget keys that are about to be written."""
        self._young.difference_update(keys)
        self._old.difference_update(keys)

    def _take(self, key: bytes) -> bool:
        """Whether the key is absent; forgets it."""
        for keys in (self._young, self._old):
            if key in keys:
                self.forget((key,))
                return True
        return False
