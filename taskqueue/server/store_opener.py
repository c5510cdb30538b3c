"""Opens the daemon's store: at the start, and again after each failure.

Damage found at the start is reported, and the operator decides. After a failure of this process a torn write in the log
is no damage, as long as no synced change is lost. A database says how far this process had written to it: it may have
gone back since.

``Backoff`` says how long the loop waits between attempts to use a failed store again.
"""

from __future__ import annotations

import logging
from math import inf
from typing import TYPE_CHECKING, Final

from taskqueue.errors import ConfigError, Damaged, SettingError
from taskqueue.server.clock import boot_id
from taskqueue.server.config import SECTIONS, Config
from taskqueue.server.meters import Meters
from taskqueue.settings.reader import problems as setting_problems
from taskqueue.store.contract import Store
from taskqueue.store.files.damage import Damage
from taskqueue.store.files.folder import is_store, write_byte
from taskqueue.store.files.log_recovery import lost_task_lines, lost_tasks
from taskqueue.store.rocksdb.engine import translated_errors
from taskqueue.store.rocksdb.rocks_store import RocksStore
from taskqueue.store.tools.store_stats import project_records
from taskqueue.visible_text import visible

if TYPE_CHECKING:
    from taskqueue.store.postgres.fence import Progress
    from taskqueue.store.postgres.postgres_store import PostgresStore
    from taskqueue.store.postgres.session import Target


SCHEMA_KEY: Final = "schema="
"""In the query of a database's url: names the schema, which the database's library does not know."""

NAMED_TASKS: Final = 20
"""Tasks to name per project that has lost changes."""

log = logging.getLogger("taskqueue")


class StoreOpener:
    """Opens the store, as often as necessary, and sees before that, at little cost, whether it can be used again.

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
        self._reached: Target | None = None
        self.where = ""

    def probe(self, config: Config) -> None:
        """See whether the store can be used, by a connection that is made, or a byte that is written and synced.

        Raises:
            ConfigError: the store is in a database, and what it takes to reach one is not installed.
            Damaged: the folder that this process has used is gone.
            StoreError: it can't be used.
        """
        said = config.store
        if not said.url:
            self._refuse_gone(said.path)
            with translated_errors(said.path, "probe"):
                write_byte(said.path)
            return
        target = database_target(said.url, said.schema, said.timeout)
        from taskqueue.store.postgres.session import reachable

        self._reached = reachable(target)

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
        self._refuse_gone(self.where)
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

    def _refuse_gone(self, path: str) -> None:
        """Opening a folder in which there is no store makes an empty one."""
        if self._was_open and not is_store(path):
            raise Damaged(f"{path}: the store is gone: the folder has no CURRENT any more; restore it from a backup")

    def _open_database(self, config: Config) -> PostgresStore:
        said = config.store
        target = self._reached or database_target(said.url, said.schema, said.timeout)
        self._reached = None
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
    """The database that settings name; ``?schema=NAME`` of the url wins over ``schema``.

    Raises:
        ConfigError: what it takes to reach one is not installed.
        SettingError: the url is wrong.
    """
    try:
        from taskqueue.store.postgres.session import target_of
    except ImportError as error:
        raise ConfigError(
            f"{error.name or 'libpq'} is not installed, which a store in a database needs: "
            "pip install 'taskqueue-scheduler[postgres]'"
        ) from None
    plain_url, named = _without_schema(url)
    return target_of(plain_url, named or schema, timeout)


def _without_schema(url: str) -> tuple[str, str]:
    """The url as the database's library takes it, and the schema that its query names; empty: it names none.

    Raises:
        SettingError: it names several, or one that can't be a name.
    """
    place, _, query = url.rpartition("?")
    parts = query.split("&") if place else []
    named = [part.removeprefix(SCHEMA_KEY) for part in parts if part.startswith(SCHEMA_KEY)]
    if not named:
        return url, ""
    if len(named) > 1:
        raise SettingError("store.url: it names a schema more than once")
    for problem in setting_problems("store", {"schema": named[0]}, SECTIONS["store"]):
        raise SettingError(f"store.url: {problem.removeprefix('store.')}")
    others = "&".join(part for part in parts if not part.startswith(SCHEMA_KEY))
    return f"{place}?{others}" if others else place, named[0]


def _log_damage(store: RocksStore, damage: Damage) -> None:
    level, event = (logging.ERROR, "damage-accepted") if damage.is_unexplained else (logging.WARNING, "log-cut")
    names = {record.number: record.name for record in project_records(store)}
    lost = lost_task_lines(lost_tasks(damage), names, NAMED_TASKS)
    for line in [*damage.lines(), *lost, f"what was cut off is kept in {damage.aside}"]:
        log.log(level, "%s %s", event, visible(line))


FIRST_SECONDS: Final = 0.25
LATER_SECONDS: Final = 1.0
"""Clients stand still until the store is found to be usable again, and most troubles end within the first minute."""

HASTE_SECONDS: Final = 60.0
"""Age of a trouble from which on the store is tried each LATER_SECONDS; peace after which another one begins."""


class Backoff:
    """Pauses of one trouble: none before the first attempt, then FIRST_SECONDS each, from HASTE_SECONDS on
    LATER_SECONDS each. It ends by ``reset``, or if nothing is tried for HASTE_SECONDS.
    """

    def __init__(self) -> None:
        self._began_at = self._tried_at = -inf

    def next(self, now: float) -> float:
        """Seconds to wait before the next attempt; ``now`` is in seconds of any one clock that never steps."""
        is_new = now >= self._tried_at + HASTE_SECONDS
        if is_new:
            self._began_at = now
        pause = 0.0 if is_new else FIRST_SECONDS if now < self._began_at + HASTE_SECONDS else LATER_SECONDS
        self._tried_at = now + pause
        return pause

    def reset(self) -> None:
        """The trouble is over."""
        self._tried_at = -inf
