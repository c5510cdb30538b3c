"""Opens the daemon's store: at the start, and again after each failure.

Damage found at the start is reported, and the operator decides. After a failure of this process a torn write in the log
is no damage, as long as no synced change is lost. A database says how far this process had written to it: it may have
gone back since.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from taskqueue.errors import ConfigError
from taskqueue.server.clock import boot_id
from taskqueue.server.config.config_file import Config
from taskqueue.server.meters import Meters
from taskqueue.store.contract import Store
from taskqueue.store.files.damage import Damage
from taskqueue.store.repair.lost_tasks import lines, lost_tasks
from taskqueue.store.rocksdb.rocks_store import RocksStore
from taskqueue.store.tools.store_stats import project_records
from taskqueue.visible_text import visible

if TYPE_CHECKING:
    from taskqueue.store.postgres.fence import Progress
    from taskqueue.store.postgres.postgres_store import PostgresStore
    from taskqueue.store.postgres.target import Target

NAMED_TASKS: Final = 20
"""Tasks to name per project that has lost changes."""

log = logging.getLogger("taskqueue")


class StoreOpener:
    """Opens the store, as often as necessary.

    Attributes:
        where: the folder or database, for messages.
        inbox: the open store if producers may insert tasks into it; None: they may not.
    """

    def __init__(self, accept_damage: bool, meters: Meters) -> None:
        """``accept_damage``, from the command line, applies until the store has been opened once."""
        self._accept_damage = accept_damage
        self._meters = meters
        self._was_open = False
        self.inbox: PostgresStore | None = None
        self._progress: Progress | None = None
        self.where = ""

    def open(self, config: Config) -> Store:
        """Open the store, and log the damage that was accepted, or what a database has lost.

        Raises:
            ConfigError: the store is in a database, and what it takes to reach one is not installed.
            StoreError: it can't be opened.
            Damaged: it is damaged, and that is not accepted.
        """
        return self._open_database(config) if config.store.url else self._open_folder(config)

    def _open_folder(self, config: Config) -> RocksStore:
        self.where = config.store.path
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

    def _open_database(self, config: Config) -> PostgresStore:
        said = config.store
        target = database_target(said.url, said.schema, said.timeout)
        from taskqueue.store.postgres.fence import Progress
        from taskqueue.store.postgres.postgres_store import PostgresStore

        self.where = target.where
        self._progress = self._progress or Progress()
        store = PostgresStore(target, progress=self._progress)
        self.inbox = store
        if store.views_refused:
            log.warning("views-refused error=%s; all else works without them", store.views_refused)
        # What a reply waits for a sync for is acknowledged only then.
        lost = store.lost_synced_turns if said.durability == "commit" else store.lost_turns
        if lost:
            self._meters.lost_turns += lost
            log.error(
                "store-lost turns=%d; they were acknowledged: a standby took over that did not have them, or the "
                "server went down before they were on its disk. Buckets begin empty",
                lost,
            )
        elif store.lost_turns:
            log.warning(
                "store-behind turns=%d; the server went down before they were on its disk. Nothing of them was "
                "acknowledged; what they handed out may be handed out again",
                store.lost_turns,
            )
        return store


def database_target(url: str, schema: str, timeout: float) -> Target:
    """The database that settings name.

    Raises:
        ConfigError: what it takes to reach one is not installed, or the url is wrong.
    """
    try:
        from taskqueue.store.postgres.target import target_of
    except ImportError as error:
        raise ConfigError(
            f"{error.name or 'libpq'} is not installed, which a store in a database needs: "
            "pip install 'taskqueue-scheduler[postgres]'"
        ) from None
    return target_of(url, schema, timeout)


def _log_damage(store: RocksStore, damage: Damage) -> None:
    level, event = (logging.ERROR, "damage-accepted") if damage.is_unexplained else (logging.WARNING, "log-cut")
    names = {record.number: record.name for record in project_records(store)}
    lost = lines(lost_tasks(damage), names, NAMED_TASKS)
    for line in [*damage.lines(), *lost, f"what was cut off is kept in {damage.aside}"]:
        log.log(level, "%s %s", event, visible(line))
