"""One epoch: the core, its ledger and its syncer, from load until the store fails or the daemon stops.

    begin ──► ledger: look up ──► decide ──► ledger: write ──► syncer: on disk

Nothing of an epoch outlives it: after a StoreError the whole is closed and another one begun from what the
store has, as after kill -9.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from taskqueue.calendar import Calendar
from taskqueue.core.scheduler import Scheduler
from taskqueue.core.settings.settings import CoreConfig
from taskqueue.core.tasks.records import ProjectRecord
from taskqueue.core.turn import TurnResult
from taskqueue.errors import StoreError
from taskqueue.protocol.fields import Now
from taskqueue.protocol.replies import Outgoing
from taskqueue.protocol.requests import Incoming
from taskqueue.server.clock import ticks
from taskqueue.server.meters import Meters
from taskqueue.server.syncer import Durability, Syncer
from taskqueue.store.ledger import Ledger

log = logging.getLogger("taskqueue")


class Engine:
    """Begins at once.

    Attributes:
        number: of the epoch.
        projects: as the store had them when it began.
        syncer: covers its writes.

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
    ) -> None:
        self._ledger = ledger
        self._meters = meters
        self._closed = False
        loaded = ledger.begin(boot_id)
        self.number = loaded.epoch
        self.projects: list[ProjectRecord] = loaded.projects
        self._core = Scheduler(loaded, config, Calendar(), now)
        self.syncer = Syncer(ledger.sync, durability, meters)

    def turn(
        self,
        now: Now,
        incoming: Sequence[Incoming],
        config: CoreConfig | None,
        undelivered: Sequence[Outgoing],
        reloaded: Sequence[str] | None,
    ) -> TurnResult:
        """Decide and write; what it says may leave when the syncer has covered its last write.

        Args:
            config: a new one, or None.
            undelivered: selects of the turn before that could not be sent.
            reloaded: settings that a reload of the config changed; None: there was none.

        Raises:
            StoreError: nothing that was said may leave; the epoch is over.
            Corrupt: the core is broken.
        """
        meters = self._meters
        began = ticks()
        turn = self._core.begin(now, incoming)
        found = self._ledger.find(turn.needs)
        looked = ticks()
        result = turn.decide(found, config, undelivered, reloaded)
        decided = ticks()
        if self._ledger.commit(result.writes):
            self.syncer.wrote()
            meters.writes += 1
        meters.turns += 1
        meters.find_seconds += looked - began
        meters.step_seconds += decided - looked
        meters.keep_seconds += ticks() - decided
        return result

    def pseudonym(self, session: str) -> str:
        """What people are shown in place of the session's id."""
        return self._core.pseudonym(session)

    def next_event_at(self, now: Now) -> float:
        """Boot-clock seconds at which a turn is due even if nothing is heard; inf: never."""
        return self._core.next_event_at(now)

    def finish(self) -> None:
        """Write what an orderly end keeps, and wait until everything is on disk; there may be no further turn.

        Raises:
            StoreError: it could not be written or synced.
        """
        if self._ledger.commit(self._core.last_words()):
            self.syncer.wrote()
        self.syncer.finish()

    def stop(self) -> None:
        """Mark a clean stop; after ``finish``.

        Raises:
            StoreError: the stop is not clean.
        """
        self._ledger.stop()

    def close(self) -> None:
        """Let go of the store, whatever state it is in. Nothing happens the second time."""
        if self._closed:
            return
        self._closed = True
        self.syncer.close()
        try:
            self._ledger.close()
        except StoreError as error:
            log.error("store-close-failed error=%s", error)
