"""The fence: a row that decides who may write, and shows whether the database still has all confirmed turns.

    schedulers        (1, epoch, turn)        each write: (epoch, n) ──► (epoch, n + 1), or it fails
                                              each start: (any) ──► (epoch + 1, 0), with its owner

| the row has | meaning |
|---|---|
| this epoch or a later one, and another owner | another daemon has taken over |
| this epoch and this turn | all is well |
| an earlier epoch or turn | the database went back: a standby took over that had not received everything |
| no epoch, or there is no row | the store is gone, and its tables, if there are any, are new |

Writes, barriers and looks into the inbox check it, so a daemon that writes nothing notices its successor, too.

The row is found by all its columns. With turn in the key, a search does not skip all former versions of the row, which
an old snapshot, such as a dump's, keeps from being removed. The row of barriers works alike.

The fence always keeps two writers apart, but it does so by stopping the first one. A daemon is started to take over; a
command that imports tasks is not. So the name of the connection also shows who writes, and such a command refuses to be
the second writer.
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
    """Progress of a daemon's writes; turns are counted from 0 in each epoch."""

    epoch: int
    turn: int


def fence_sql(schema: str) -> str:
    """Make SQL that moves the row from turn $2 of epoch $1 to the next one, or divides by zero."""
    return (
        f"with moved as (update {schema}.schedulers set turn = turn + 1 "
        f"where id = {SCHEDULER} and epoch = $1::int8 and turn = $2::int8 returning 1) select 1 / count(*) from moved"
    )


def barrier_sql(schema: str) -> str:
    """Make SQL that writes something to commit, or divides by zero if the row is not at turn $2 of epoch $1 or later.

    It returns the number of the barrier, which the next barrier passes as $3, the start of its search.
    """
    return (
        f"with moved as (update {schema}.barriers set number = number + 1 "
        f"where id = {SCHEDULER} and number >= $3::int8 and exists "
        f"(select 1 from {schema}.schedulers where id = {SCHEDULER} and epoch = $1::int8 and turn >= $2::int8) "
        "returning number) select 1 / count(*), max(number) from moved"
    )


def look_sql(schema: str) -> str:
    """Make SQL that returns a row if the fence is at turn $2 of epoch $1, which the owner $3 has begun."""
    return (
        f"select 1 from {schema}.schedulers where id = {SCHEDULER} "
        "and epoch = $1::int8 and turn = $2::int8 and coalesce(owner, '') = $3::bytea"
    )


def beginning(schema: str, epoch: int, owner: bytes) -> Statement:
    """Make the statement that moves the row to a new epoch."""
    sql = (
        f"update {schema}.schedulers set epoch = $1::int8, turn = 0, owner = $2::bytea, crc = $3::int4 "
        f"where id = {SCHEDULER}"
    )
    return Statement(sql, (packed_number(epoch), owner, _checksum(epoch, owner).to_bytes(4, "big")))


class Progress:
    """Progress of this process's writes to a database, across all its connections.

    Attributes:
        owner: name of the process in the row, by which it recognises an epoch that it began without getting an answer.
        position: last confirmed position; None if there is none.
        begun_by: owner of its epoch.
        synced: last position that a barrier has covered; None if there is none.
        lost_turns: confirmed turns that the database has lost; 0 again when a new epoch allows for them.
        lost_synced_turns: lost turns that a barrier had covered, so that a server's crash can't have taken them.
        lost_after: epoch of the lost turns.
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
        """Compare the progress with the database's position, which becomes the new one.

        Raises:
            Fenced: another daemon has begun an epoch since.
            Damaged: the store is gone; or the row of the fence or of barriers is missing or damaged.
            StoreError: they can't be read.
        """
        found, owner = read_position(session, schema)
        former = self.position
        if former is not None and not found.epoch:
            raise gone(where, "its tables are new")
        if former is not None and self._is_anothers(former, found, owner):
            raise Fenced(
                f"{where}: epoch {former.epoch} has ended, {found.epoch} has begun; another daemon uses this store"
            )
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
        """Whether another process has begun the epoch since: a later one, or, after a failover, the same again."""
        known = (self.owner, self.begun_by) if found.epoch == former.epoch else (self.owner,)
        return found.epoch >= former.epoch and owner not in known

    def forget_losses(self) -> None:
        """Reset the counts of lost turns, once reported and allowed for by a new epoch."""
        self.lost_turns = self.lost_synced_turns = 0


def _lost(had: Position, found: Position) -> int:
    """Count the missing turns, at least."""
    return had.turn + 1 if found.epoch < had.epoch else max(0, had.turn - found.turn) if found.epoch == had.epoch else 0


def refusal(target: Target, progress: Progress) -> StoreError:
    """Make the error that explains why the fence refused this process."""
    looked = copy(progress)
    try:
        with closing(Session(target, READS)) as session:
            looked.compare(session, target.schema, target.where)
    except StoreError as error:
        return error
    lost = looked.lost_turns - progress.lost_turns
    said = f"it has lost at least {lost} confirmed turns" if lost else "its fence refused a write"
    return DatabaseError(f"{target.where}: {said}", "the database has lost changes")


def read_position(session: Session, schema: str) -> tuple[Position, bytes]:
    """Read the row's position and owner.

    Raises:
        Damaged: the row of the fence or of barriers is missing or damaged.
    """
    sql = (
        f"select epoch, turn, owner, crc, (select count(*) from {schema}.barriers where id = {SCHEDULER}) "
        f"from {schema}.schedulers where id = {SCHEDULER}"
    )
    rows = session.run("read", [Statement(sql)])[0]
    if len(rows) != 1:
        raise _damaged(f"{schema}.schedulers", f"it has {len(rows)} rows, not 1")
    epoch, turn, owner, crc, barriers = rows[0]
    if unpacked_number(barriers or b"") != 1:
        raise _damaged(f"{schema}.barriers", "its row is missing")
    found = Position(unpacked_number(epoch or b""), unpacked_number(turn or b""))
    if not matches(crc, _checksum(found.epoch, owner or b"")):
        raise _damaged(f"{schema}.schedulers", MISMATCH)
    return found, owner or b""


def _checksum(epoch: int, owner: bytes) -> int:
    """Compute the checksum of the row without its turn, which writes change without a new checksum."""
    return checksum("schedulers", packed_number(epoch), owner)


def _damaged(name: str, reason: str) -> Damaged:
    return Damaged(
        f"{name}: {reason}; make the row anew with taskqueue store repair, or restore the database from a backup "
        "(an operator who changes a row by hand sets its crc to null)"
    )


LOOKS: Final = 20
LOOK_SECONDS: Final = 0.1
"""Pause between looks: a connection that has just been closed may be visible for another moment."""


def writer_name(schema: str) -> str:
    """Make the name of the connection that writes, of 63 characters at most."""
    return f"taskqueue/{schema}"


def refuse_second_writer(target: Target) -> None:
    """Check that no other process writes to the store.

    Raises:
        StoreError: another process does, or the database can't be asked.
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
        f"{target.where}: a daemon uses this store, from {address}; stop it first "
        f"(if its machine is gone: select pg_terminate_backend({pid}))"
    )
