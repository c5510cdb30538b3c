"""Open the daemon's store: at the start, and again after each failure.

Damage found at the start is reported, and the operator decides. After a failure of this process a torn write in the
write-ahead log is not damage, as long as no synced change is lost. A database is compared with this process's progress,
because it may have lost changes since.

``Backoff`` gives the pauses between attempts to use a failed store again.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from math import inf
from pathlib import Path
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
from taskqueue.texts.visible_text import visible

if TYPE_CHECKING:
    from taskqueue.store.postgres.fence import Progress
    from taskqueue.store.postgres.postgres_store import PostgresStore
    from taskqueue.store.postgres.session import Target


SCHEMA_KEY: Final = "schema="
"""Parameter in the query of a database's URL that names the schema, which the database's library does not know."""

NAMED_TASKS: Final = 20
"""Tasks to name per project that has lost changes, at most."""

log = logging.getLogger("taskqueue")


class StoreOpener:
    """Opener of the store, which first tests, at little cost, whether the store can be used again.

    Attributes:
        where: folder or database, for messages.
        inbox: open store if producers may insert tasks into it; None if they may not.
    """

    def __init__(self, accept_damage: bool, meters: Meters) -> None:
        """Make an opener.

        Args:
            accept_damage: option of the command line; applies until the store has been opened once.
        """
        self._accept_damage = accept_damage
        self._meters = meters
        self._was_open = False
        self.inbox: PostgresStore | None = None
        self._progress: Progress | None = None
        self._reached: Target | None = None
        self.where = ""

    def probe(self, config: Config) -> None:
        """Test whether the store can be used, by making a connection, or by writing and syncing a byte.

        Raises:
            ConfigError: the store is in a database, and the library to reach it is not installed.
            Damaged: the folder that this process has used is gone.
            StoreError: the store can't be used.
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
        """Open the store, and log accepted damage, or the losses of a database.

        Raises:
            ConfigError: the store is in a database, and the library to reach it is not installed.
            StoreError: the store can't be opened.
            Damaged: the store is damaged, and that is not accepted.
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
        """Refuse a folder that has lost its store; opening it would make an empty one.

        A file beside the folder lets the next process refuse, too: containers start it again after any exit status.
        """
        mark = Path(f"{path}.gone")
        if is_store(path):
            mark.unlink(missing_ok=True)
            return
        if self._was_open:
            with suppress(OSError):
                mark.touch()
        elif not mark.exists():
            return
        raise Damaged(
            f"{path}: the store is gone: the folder has no CURRENT any more; restore it from a backup, "
            f"or remove {mark} to begin with an empty store"
        )

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
        # Only synced turns were acknowledged.
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
                "store-behind turns=%d; the server went down before they were on its disk. They were not "
                "acknowledged; tasks that they dispatched may be dispatched again",
                store.lost_turns,
            )
        return store


def database_target(url: str, schema: str, timeout: float) -> Target:
    """Make the target of the database that settings name; ``?schema=NAME`` of the URL wins over ``schema``.

    Raises:
        ConfigError: the library to reach a database is not installed.
        SettingError: the URL is wrong.
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
    """Split a URL into the part for the database's library and the schema in its query; empty if it names none.

    Raises:
        SettingError: it names several schemas, or an invalid one.
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
    for line in [*damage.lines(), *lost, f"the cut logs are kept in {damage.aside}"]:
        log.log(level, "%s %s", event, visible(line))


FIRST_SECONDS: Final = 0.25
LATER_SECONDS: Final = 1.0
"""Seconds between later attempts. Clients stand still meanwhile, and most failures end within the first minute."""

HASTE_SECONDS: Final = 60.0
"""Age of a failure from which on the pauses are LATER_SECONDS; pause after which the next failure is a new one."""


class Backoff:
    """Pauses of one failure: none before the first attempt, then FIRST_SECONDS, after HASTE_SECONDS LATER_SECONDS.

    It ends by ``reset``, or after HASTE_SECONDS without an attempt.
    """

    def __init__(self) -> None:
        self._began_at = self._tried_at = -inf

    def next(self, now: float) -> float:
        """Return the seconds to wait before the next attempt.

        Args:
            now: seconds of any one clock that never steps.
        """
        is_new = now >= self._tried_at + HASTE_SECONDS
        if is_new:
            self._began_at = now
        pause = 0.0 if is_new else FIRST_SECONDS if now < self._began_at + HASTE_SECONDS else LATER_SECONDS
        self._tried_at = now + pause
        return pause

    def reset(self) -> None:
        """End the failure."""
        self._tried_at = -inf
