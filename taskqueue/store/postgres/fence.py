"""The fence: who may write, and whether the database still has what it had confirmed.

    schedulers    (1, epoch, turn)    each write: (epoch, n) ──► (epoch, n + 1), or it fails
                                      each start: (any) ──► (epoch + 1, 0), with its owner

| the row has | so |
|---|---|
| this epoch or a later one, and another owner | another scheduler has taken over |
| this epoch and this turn | all is well |
| an earlier epoch or turn | the database has gone back: a standby took over that had not received everything |
| no epoch yet, or it is not there | the store is gone, and its tables, if there are any, are new |

Writes, barriers and each look into the inbox ask it, so a scheduler that writes nothing notices its successor, too.

The row is found by all its columns: with turn in the key an old snapshot, such as that of a dump, which keeps the row's
former versions from being removed, does not make each search pass over all of them. So it is with the row of barriers.

The fence keeps two writers apart in any case, but it does so by ending the first one. A daemon that is started means to
take over; a command that brings tasks in does not. So who writes is told by the name of the connection, too, and such a
command refuses to be the second one.
"""

from __future__ import annotations

import secrets
from contextlib import closing
from copy import copy
from time import sleep
from typing import Final, NamedTuple

from taskqueue.errors import Damaged, DatabaseError, Fenced, StoreError
from taskqueue.store.postgres.checksums import MISMATCH, checksum, matches
from taskqueue.store.postgres.packing import packed_number, unpacked_number
from taskqueue.store.postgres.session import READS, Session, Statement, Target
from taskqueue.store.postgres.tables import SCHEDULER, gone


class Position(NamedTuple):
    """How far a scheduler has written: turns are counted anew in each epoch."""

    epoch: int
    turn: int


def fence_sql(schema: str) -> str:
    """Moves the row from the turn $2 of the epoch $1 to the next one, or divides by zero."""
    return (
        f"with moved as (update {schema}.schedulers set turn = turn + 1 "
        f"where id = {SCHEDULER} and epoch = $1::int8 and turn = $2::int8 returning 1) select 1 / count(*) from moved"
    )


def barrier_sql(schema: str) -> str:
    """A write for its commit's sake, or a division by zero if the row is not at turn $2 of epoch $1 or later.

    Gives the number of the barrier, from which on, as $3, the next one looks for its row.
    """
    return (
        f"with moved as (update {schema}.barriers set number = number + 1 "
        f"where id = {SCHEDULER} and number >= $3::int8 and exists "
        f"(select 1 from {schema}.schedulers where id = {SCHEDULER} and epoch = $1::int8 and turn >= $2::int8) "
        "returning number) select 1 / count(*), max(number) from moved"
    )


def look_sql(schema: str) -> str:
    """Gives a row if the row is at turn $2 of epoch $1, which the owner $3 has begun."""
    return (
        f"select 1 from {schema}.schedulers where id = {SCHEDULER} "
        "and epoch = $1::int8 and turn = $2::int8 and coalesce(owner, '') = $3::bytea"
    )


def beginning(schema: str, epoch: int, owner: bytes) -> Statement:
    """The statement that moves the row to a new epoch."""
    sql = (
        f"update {schema}.schedulers set epoch = $1::int8, turn = 0, owner = $2::bytea, crc = $3::int4 "
        f"where id = {SCHEDULER}"
    )
    return Statement(sql, (packed_number(epoch), owner, _checksum(epoch, owner).to_bytes(4, "big")))


class Progress:
    """How far this process has written to a database, whatever has become of its connections meanwhile.

    Attributes:
        owner: names the process in the row, so that an epoch that it has begun without being told is known as its own.
        position: the last one that was confirmed; None: none has been.
        begun_by: the owner of its epoch.
        synced: the last one that a barrier has covered; None: none has.
        lost_turns: turns that were confirmed and are not there any more; 0 again when a new epoch allows for it.
        lost_synced_turns: those of them that a barrier had covered, so that a server's crash can't have taken them.
        lost_after: the epoch in which they were.
    """

    def __init__(self) -> None:
        self.owner = secrets.token_bytes(16)
        self.position: Position | None = None
        self.begun_by = b""
        self.synced: Position | None = None
        self.lost_turns = 0
        self.lost_synced_turns = 0
        self.lost_after = 0

    def compare(self, session: Session, schema: str, where: str) -> Position:
        """Compare it with what the database has, which is the position from then on.

        Raises:
            Fenced: another scheduler has begun an epoch since.
            Damaged: the store is gone; or the row, or that of barriers, is missing or not as it was written.
            StoreError: they can't be read.
        """
        found, owner = read_position(session, schema)
        former = self.position
        if former is not None and not found.epoch:
            raise gone(where, "its tables are new")
        if former is not None and self._is_anothers(former, found, owner):
            raise Fenced(f"{where}: epoch {former.epoch} is over, {found.epoch} has begun; another scheduler uses it")
        self.position, self.begun_by = found, owner
        if former is None:
            return found
        if lost := _lost(former, found):
            self.lost_turns += lost
            self.lost_after = max(self.lost_after, former.epoch)
        if self.synced is not None and (lost := _lost(self.synced, found)):
            self.lost_synced_turns += lost
            self.synced = found
        return found

    def _is_anothers(self, former: Position, found: Position, owner: bytes) -> bool:
        """Whether another process has begun the epoch since: a later one, or, after a failover, the same anew."""
        known = (self.owner, self.begun_by) if found.epoch == former.epoch else (self.owner,)
        return found.epoch >= former.epoch and owner not in known

    def forget_losses(self) -> None:
        """They have been said, and a new epoch allows for them."""
        self.lost_turns = self.lost_synced_turns = 0


def _lost(had: Position, found: Position) -> int:
    """Turns at least that are missing of what was had."""
    return had.turn + 1 if found.epoch < had.epoch else max(0, had.turn - found.turn) if found.epoch == had.epoch else 0


def refusal(target: Target, progress: Progress) -> StoreError:
    """Why the fence refused this process."""
    looked = copy(progress)
    try:
        with closing(Session(target, READS)) as session:
            looked.compare(session, target.schema, target.where)
    except StoreError as error:
        return error
    lost = looked.lost_turns - progress.lost_turns
    said = f"it has lost at least {lost} turns that it had confirmed" if lost else "its fence refused a write"
    return DatabaseError(f"{target.where}: {said}", "the database has lost changes")


def read_position(session: Session, schema: str) -> tuple[Position, bytes]:
    """Where the row is, and who owns it.

    Raises:
        Damaged: the row, or that of barriers, is not there or not as it was written.
    """
    sql = (
        f"select epoch, turn, owner, crc, (select count(*) from {schema}.barriers where id = {SCHEDULER}) "
        f"from {schema}.schedulers where id = {SCHEDULER}"
    )
    rows = session.run("read", [Statement(sql)])[0]
    if len(rows) != 1:
        raise _damaged(f"{schema}.schedulers", f"there are {len(rows)} rows of it, not 1")
    epoch, turn, owner, crc, barriers = rows[0]
    if unpacked_number(barriers or b"") != 1:
        raise _damaged(f"{schema}.barriers", "its row is missing")
    found = Position(unpacked_number(epoch or b""), unpacked_number(turn or b""))
    if not matches(crc, _checksum(found.epoch, owner or b"")):
        raise _damaged(f"{schema}.schedulers", MISMATCH)
    return found, owner or b""


def _checksum(epoch: int, owner: bytes) -> int:
    """The checksum of the row but for its turn, which each write moves on by a sum of its own."""
    return checksum("schedulers", packed_number(epoch), owner)


def _damaged(name: str, reason: str) -> Damaged:
    return Damaged(
        f"{name}: {reason}; taskqueue store repair makes the row anew, or restore the database from a backup "
        "(an operator who changes a row by hand sets its crc to null)"
    )


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
