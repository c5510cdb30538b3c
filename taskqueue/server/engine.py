"""The engine of one epoch: core, ledger and syncer, from loading until the store fails or the daemon stops.

    begin ──► ledger: look up ──► decide ──► ledger: commit ──► syncer: sync

A turn without changes lets a database delete some dropped rows, and an idle daemon takes turns for that alone. Each
deletes little, so that requests wait only briefly.

After a StoreError the engine is closed, and another one begins from the store, as after kill -9.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from math import inf
from typing import Final

from taskqueue.calendar import Calendar
from taskqueue.core.model.daemon_minutes import DaemonMinute
from taskqueue.core.model.now import Now
from taskqueue.core.model.records import ProjectRecord
from taskqueue.core.scheduler import Scheduler
from taskqueue.core.turn_result import TurnResult
from taskqueue.errors import StoreError
from taskqueue.protocol.fields import Peer
from taskqueue.protocol.messages import Incoming, Outgoing
from taskqueue.server.clock import ticks
from taskqueue.server.meters import Meters
from taskqueue.server.postgres_intake import Table, TableIntake
from taskqueue.server.syncer import Durability, Syncer
from taskqueue.settings.settings import CoreConfig
from taskqueue.store.ledger import Ledger

FREE_PAUSE_SECONDS: Final = 0.01
"""Pause between two turns that only delete dropped rows.

It is about as long as such a turn and its sync, so that ten million rows are gone in minutes and the database has half
of its time for others.
"""

LOGGED_MOST: Final = 100
"""Damaged rows of one turn that are logged one by one, at most."""

log = logging.getLogger("taskqueue")


class Engine:
    """Engine of one epoch, which begins when the engine is created.

    Attributes:
        epoch: number of the epoch.
        projects: projects as the store had them when the epoch began.
        owners: owners of the sessions in the store then.
        syncer: syncs its writes.
        database: address of the store's database, for messages; empty if the store is in a folder.
        intake: takes tasks that producers have inserted into a table of the store; None without such a table.

    Raises:
        StoreError: the store could not be read, or the epoch not be written.
    """

    def __init__(
        self,
        ledger: Ledger,
        boot_id: str,
        config: CoreConfig,
        now: Now,
        durability: Durability,
        meters: Meters,
        inbox: Table | None = None,
    ) -> None:
        self._ledger = ledger
        self._meters = meters
        self._closed = False
        loaded = ledger.begin(boot_id)
        self.epoch = loaded.epoch
        self.projects: list[ProjectRecord] = loaded.projects
        self.owners = dict.fromkeys(each.owner for each in loaded.sessions if each.owner)
        self._log_damage()
        self._core = Scheduler(loaded, config, Calendar(), now)
        self.syncer = Syncer(ledger.sync, durability, meters)
        self.database = "" if inbox is None else inbox.where
        self.intake = None if inbox is None else TableIntake(inbox, config.max_message)
        self._table = inbox
        self._may_free_at = -inf

    def turn(
        self,
        now: Now,
        incoming: Sequence[Incoming],
        config: CoreConfig | None,
        undelivered: Sequence[Outgoing],
        reloaded: Sequence[str] | None,
        figures: DaemonMinute | None,
        cut: Sequence[Peer | str] = (),
    ) -> TurnResult:
        """Decide and commit one turn; its replies may be sent when the syncer has synced its last write.

        Args:
            config: new config, or None.
            undelivered: selects of the previous turn that could not be sent.
            reloaded: settings changed by a reload of the config; None without a reload.
            figures: figures of the last minute; None if they are stored already.
            cut: peers whose connections were closed because their key was revoked, and owners of revoked keys.

        Raises:
            StoreError: no reply of the turn may be sent; the epoch has ended.
            Corrupt: an invariant of the core is broken.
        """
        try:
            return self._turn(now, incoming, config, undelivered, reloaded, figures, cut)
        except StoreError:
            raise
        except Exception:
            # Changes by another daemon contradict the memory here, which is not a bug.
            self._ledger.write_nothing()
            raise

    def _turn(
        self,
        now: Now,
        incoming: Sequence[Incoming],
        config: CoreConfig | None,
        undelivered: Sequence[Outgoing],
        reloaded: Sequence[str] | None,
        figures: DaemonMinute | None,
        cut: Sequence[Peer | str],
    ) -> TurnResult:
        meters = self._meters
        began = ticks()
        if self.intake is not None:
            incoming = [*incoming, *self.intake.requests(now.boot)]
        turn = self._core.begin(now, incoming)
        found = self._ledger.find(turn.needs)
        looked = ticks()
        result = turn.decide(found, config, undelivered, reloaded, figures, cut)
        decided = ticks()
        if self._ledger.quarantine.noted:
            self._log_damage()
        taken = None
        if self.intake is not None:
            result.outgoing, taken = self.intake.settle(result.outgoing)
        has_written = self._ledger.commit(result.writes, taken)
        ended = ticks()
        if has_written:
            meters.damaged_rows = self._ledger.quarantine.kept
            self.syncer.wrote()
            meters.writes += 1
            meters.commit.note(ended - decided)
            meters.tasks.note(len(result.writes.moves))
        elif self._frees_at() <= now.boot:
            self._ledger.write_nothing()
            self.syncer.wrote()
            self._may_free_at = now.boot + (ticks() - began) + FREE_PAUSE_SECONDS
        meters.turns += 1
        meters.find_seconds += looked - began
        meters.step_seconds += decided - looked
        meters.keep_seconds += ended - decided
        meters.turn.note(ended - began)
        return result

    def _log_damage(self) -> None:
        """Log newly found damaged rows; rows set aside at the end of the turn are counted then."""
        quarantine = self._ledger.quarantine
        self._meters.damaged_rows = quarantine.kept
        for row in quarantine.noted[:LOGGED_MOST]:
            log.error("damaged family=%s key=%s reason=%r", row.family, row.key.hex(), row.reason)
        if len(quarantine.noted) > LOGGED_MOST:
            log.error("damaged rows=%d; these are not listed", len(quarantine.noted) - LOGGED_MOST)
        quarantine.noted.clear()

    def pseudonym(self, session: str) -> str:
        """Return the public name of a session, which does not reveal its id."""
        return self._core.pseudonym(session)

    def levels(self) -> dict[int, list[int]]:
        """Return the bytes of each of the store's tables, by level.

        Raises:
            StoreError: the store can't be read.
        """
        return self._ledger.levels()

    def log_bytes(self) -> int:
        """Return the bytes of the store's write-ahead log; 0 if it has none of its own.

        Raises:
            StoreError: the store can't be read.
        """
        return self._ledger.log_bytes()

    def next_event_at(self, now: Now) -> float:
        """Return the boot-clock seconds at which a turn is due even without requests; inf for never.

        Raises:
            StoreError: the store has failed meanwhile.
        """
        core = self._core.next_event_at(now)
        return core if self.intake is None else min(core, self.intake.due_at(), self._frees_at())

    def _frees_at(self) -> float:
        """Return the boot-clock seconds at which a turn deletes some dropped rows; inf if none are left."""
        return self._may_free_at if self._table is not None and self._table.has_retired else inf

    def finish(self, figures: DaemonMinute | None) -> None:
        """Commit the last changes of a clean shutdown, and wait until everything is synced; no turn may follow.

        Args:
            figures: figures of the running minute; None if it had no turn.

        Raises:
            StoreError: they could not be written or synced.
        """
        if self._ledger.commit(self._core.last_words(figures)):
            self.syncer.wrote()
        self.syncer.finish()

    def stop(self) -> None:
        """Mark a clean stop; call it after ``finish``.

        Raises:
            StoreError: the mark could not be written, so the stop is not clean.
        """
        self._ledger.stop()

    def close(self) -> None:
        """Release the store in any state; idempotent."""
        if self._closed:
            return
        self._closed = True
        self.syncer.close()
        try:
            self._ledger.close()
        except StoreError as error:
            log.error("store-close-failed error=%s", error)
