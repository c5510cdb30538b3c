"""Opens the daemon's store: at the start, and again after each failure.

Damage found at the start is reported, and the operator decides. After a failure of this process a torn write in the log
is no damage, as long as no synced change is lost.
"""

from __future__ import annotations

import logging
from typing import Final

from taskqueue.server.clock import boot_id
from taskqueue.server.config.config_file import Config
from taskqueue.store.files.damage import Damage
from taskqueue.store.repair.lost_tasks import lines, lost_tasks
from taskqueue.store.rocksdb.rocks_store import RocksStore
from taskqueue.store.tools.store_stats import project_records
from taskqueue.visible_text import visible

NAMED_TASKS: Final = 20
"""Tasks to name per project that has lost changes."""

log = logging.getLogger("taskqueue")


class StoreOpener:
    """Opens the store, as often as necessary."""

    def __init__(self, accept_damage: bool) -> None:
        """``accept_damage``, from the command line, applies until the store has been opened once."""
        self._accept_damage = accept_damage
        self._was_open = False

    def open(self, config: Config) -> RocksStore:
        """Open the store, and log the damage that was accepted.

        Raises:
            StoreError: it can't be opened.
            Damaged: it is damaged, and that is not accepted.
        """
        store = RocksStore(
            config.store.path,
            cache_bytes=config.store.cache,
            boot_id=boot_id(),
            has_failed=self._was_open,
            accept_damage=self._accept_damage and not self._was_open,
        )
        self._was_open = True
        if store.damage is not None:
            _log_damage(store, store.damage)
        return store


def _log_damage(store: RocksStore, damage: Damage) -> None:
    level, event = (logging.ERROR, "damage-accepted") if damage.is_unexplained else (logging.WARNING, "log-cut")
    names = {record.number: record.name for record in project_records(store)}
    lost = lines(lost_tasks(damage), names, NAMED_TASKS)
    for line in [*damage.lines(), *lost, f"what was cut off is kept in {damage.aside}"]:
        log.log(level, "%s %s", event, visible(line))
