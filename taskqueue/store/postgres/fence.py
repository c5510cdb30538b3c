"""The fence: who may write, and whether the database still has what it had confirmed.

    schedulers    (1, epoch, turn)    each write: (epoch, n) ──► (epoch, n + 1), or it fails
                                      each start: (any) ──► (epoch + 1, 0)

| the row has | so |
|---|---|
| a later epoch | another scheduler has taken over |
| this epoch and this turn | all is well |
| an earlier epoch or turn | the database has gone back: a standby took over that had not received everything |

The row is found by all its columns: with turn in the key an old snapshot, such as that of a dump, which keeps the row's
former versions from being removed, does not make each search pass over all of them.
"""

from __future__ import annotations

from contextlib import closing
from typing import NamedTuple

from taskqueue.errors import DatabaseError, Fenced, StoreError
from taskqueue.store.postgres.packing import unpacked_number
from taskqueue.store.postgres.schema import SCHEDULER
from taskqueue.store.postgres.session import READS, Session, Statement
from taskqueue.store.postgres.target import Target


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
    """A write for its commit's sake, or a division by zero if the row is not at turn $2 of epoch $1 or later."""
    return (
        f"with moved as (update {schema}.barriers set number = number + 1 where id = {SCHEDULER} and exists "
        f"(select 1 from {schema}.schedulers where id = {SCHEDULER} and epoch = $1::int8 and turn >= $2::int8) "
        "returning 1) select 1 / count(*) from moved"
    )


def read_position(session: Session, schema: str) -> Position:
    """Where the row is.

    Raises:
        StoreError: it is not there, or can't be read.
    """
    rows = session.run("read", [Statement(f"select epoch, turn from {schema}.schedulers where id = {SCHEDULER}")])[0]
    if not rows:
        raise StoreError(f"{schema}.schedulers has lost its row; restore the database from a backup")
    return Position(*(unpacked_number(value or b"") for value in rows[0]))


def lost_turns(former: Position | None, found: Position, where: str) -> int:
    """How many turns of a process's the database does not have any more, at least; 0: it has all.

    Raises:
        Fenced: another scheduler has begun an epoch since.
    """
    if former is None:
        return 0
    if found.epoch > former.epoch:
        raise Fenced(f"{where}: epoch {former.epoch} is over, {found.epoch} has begun; another scheduler uses it")
    if found.epoch < former.epoch:
        return former.turn + 1
    return max(0, former.turn - found.turn)


def refusal(target: Target, position: Position) -> StoreError:
    """Why the fence refused a scheduler at ``position``."""
    try:
        with closing(Session(target, READS)) as session:
            lost = lost_turns(position, read_position(session, target.schema), target.where)
    except StoreError as error:
        return error
    said = f"it has lost at least {lost} turns that it had confirmed" if lost else "its fence refused a write"
    return DatabaseError(f"{target.where}: {said}", "the database has lost changes")
