"""Start the daemon: read the config, bind the address, open the store, and run the loop until a stop signal.

    exit 0    stopped by SIGTERM or SIGINT, cleanly
    exit 1    could not start, or stopped while the store could not be used (it waits for a disk that is full)
    exit 2    could not start, because of an invalid setting, or a file without settings
    exit 3    another daemon has taken over the store
    exit 4    an invariant is broken: a bug, and going on could lose tasks
    exit 5    the store is damaged or gone: acknowledged tasks are lost, and the operator must decide

All but the first print the reason on stderr, in one line; damage is described in further lines.
"""

from __future__ import annotations

import gc
import logging
import os
import select
import stat
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from importlib.metadata import PackageNotFoundError, version
from ipaddress import ip_address
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import Final

import msgspec

from taskqueue.core.model.records import ProjectRecord
from taskqueue.errors import ConfigError, Corrupt, Damaged, Fenced, SettingError, StoreError
from taskqueue.protocol.values import TaskCounts
from taskqueue.server import limits
from taskqueue.server.clock import Clock, boot_id
from taskqueue.server.config import (
    Config,
    changed,
    check_together,
    core_config,
    load,
    override,
    placed,
    reloaded,
    set_elsewhere,
    with_absolute_store,
    with_environment,
)
from taskqueue.server.engine import Engine
from taskqueue.server.limits import DiskSpace, group_bytes, machine_bytes, max_connections, raise_limit
from taskqueue.server.log import set_level, set_up
from taskqueue.server.loop import Loop
from taskqueue.server.meters import Meters
from taskqueue.server.network.key_ring import KeyRing
from taskqueue.server.network.router import Router
from taskqueue.server.network.socket_file import IPC, group_number
from taskqueue.server.pid_file import pid_file
from taskqueue.server.signals import Signals
from taskqueue.server.store_opener import StoreOpener
from taskqueue.server.systemd import ServiceReports
from taskqueue.server.web_child import WebChild
from taskqueue.server.webhook import Webhook
from taskqueue.settings.settings import CoreConfig
from taskqueue.store.files.integrity import is_damage, table_finding
from taskqueue.store.ledger import Ledger
from taskqueue.terminal.log_lines import write_line
from taskqueue.this_process import resident_bytes

log = logging.getLogger("taskqueue")

OPEN: Final = (
    "daemon.bind: {bind} listens on {endpoint}, which other machines reach, and without keys any program there may do "
    'everything; say who may connect, by daemon.keys = "data/access.json" and taskqueue key authorise, or start with '
    "--insecure"
)
"""Why a daemon does not start that would be open to a network."""

EXIT_STOPPED: Final = 0
EXIT_FAILED: Final = 1
EXIT_WRONG_SETTING: Final = 2
EXIT_FENCED: Final = 3
EXIT_CORRUPT: Final = 4
EXIT_DAMAGED: Final = 5

LINUX_ONLY: Final = ((os, "eventfd"), (select, "epoll"))
"""Functions that the daemon needs, and that only Linux has."""

SWITCH_SECONDS: Final = 0.0001
"""Seconds for which the loop may keep the GIL when the sync thread wants it.

Measured with a busy loop and fdatasync: 106 syncs a second with Python's own 5 ms, 2,600 with this, and the loop itself
no slower.
"""
GARBAGE_THRESHOLDS: Final = (50_000, 20, 50)
"""Thresholds of the garbage collector. A turn makes no cycles, so collections find nothing and are made rare.

While 300,000 tasks are pushed, Python's own thresholds cost 167 of them, of up to 57 ms (compiled 42, of up to 12 ms);
these 9, of which one at the start.
"""


def run(
    config_path: str | None,
    *,
    bind: Sequence[str] = (),
    store_path: str | None = None,
    durability: str | None = None,
    web: str | None = None,
    log_level: str | None = None,
    insecure: bool = False,
    environ: Mapping[str, str] = MappingProxyType({}),
    pid_path: str | None = None,
    accept_damage: bool = False,
) -> int:
    """Run a daemon in this process until a signal ends it; must be called from the main thread.

    Args:
        config_path: path of a TOML file; None for all defaults. SIGHUP reads it again.
        bind, store_path, durability, web, log_level, insecure: override the file and the environment.
        environ: variables that may contain settings; see ``config``.
        pid_path: path of a pid file; see ``pid_file``.
        accept_damage: start on a damaged store, without the lost changes.

    Returns:
        The process's exit code, one of those in the module's docstring.
    """
    source = ConfigSource(config_path, {
        ("daemon", "bind"): list(bind) or None, ("store", "path"): store_path,
        ("store", "durability"): durability, ("daemon", "log_level"): log_level, ("daemon", "web"): web,
        ("daemon", "insecure"): insecure or None,
    }, environ)  # fmt: skip
    try:
        _refuse_foreign_system()
        with pid_file(pid_path):
            _serve(source, accept_damage, ServiceReports(environ))
    except ConfigError as error:
        code = EXIT_WRONG_SETTING if isinstance(error, SettingError) else EXIT_FAILED
        return _failed(code, source.placed(str(error)))
    except Fenced as error:
        return _failed(EXIT_FENCED, f"another daemon has taken over the store: {error}")
    except Damaged as error:
        return _failed(EXIT_DAMAGED, str(error))
    except StoreError as error:
        if is_damage(error):
            return _failed(EXIT_DAMAGED, f"the store is damaged: {table_finding(source.config.store.path, error)}")
        return _failed(EXIT_FAILED, str(error))
    except Corrupt as error:
        return _failed(EXIT_CORRUPT, f"stopped because an invariant is broken, which is a bug: {error}")
    return EXIT_STOPPED


def _refuse_foreign_system() -> None:
    """Refuse a system that lacks the functions by which the daemon wakes itself and watches connections."""
    if missing := [f"{of.__name__}.{name}" for of, name in LINUX_ONLY if not hasattr(of, name)]:
        raise ConfigError(f"the daemon runs on Linux; {sys.platform} has no {', '.join(missing)}")


class ConfigSource:
    """The sources of the config: a file, overridden by the environment, overridden by the caller.

    Attributes:
        config: config in force.
    """

    def __init__(
        self, path: str | None, said: dict[tuple[str, str], str | bool | list[str] | None], environ: Mapping[str, str]
    ) -> None:
        self._path = path
        self._environ = dict(environ)
        self._overrides = {name: value for name, value in said.items() if value is not None}
        self.config = Config()

    def read(self) -> Config:
        """Read the config and put it in force.

        Raises:
            ConfigError: it is invalid.
        """
        self.config = self._read()
        return self.config

    def read_again(self) -> tuple[CoreConfig, list[str]] | None:
        """Reload the config while the daemon runs; return it for the core, with the names of changed settings.

        An invalid config is logged and changes nothing; None is returned.
        """
        before = self.config
        try:
            self.config, waiting = reloaded(before, self._read())
        except ConfigError as error:
            for line in self.placed(str(error)).split("\n"):
                log.error("config-refused %s", line)
            log.error("config-kept file=%s; the old settings stay in force", self._path)
            return None
        set_level(self.config.daemon.log_level)
        log.info("config-reloaded file=%s", self._path)
        for name in waiting:
            log.warning("config-waits setting=%s; its change needs a restart", name)
        return self.core(), changed(before, self.config)

    def placed(self, problems: str) -> str:
        """Prefix problems, one a line, by the file, variables and options that set the settings which they name."""
        return placed(problems, self._path, set_elsewhere(self._environ, self._overrides))

    def core(self) -> CoreConfig:
        """Extract the settings that the core needs."""
        return core_config(self.config, software_version())

    def _read(self) -> Config:
        config = with_environment(load(self._path), self._environ)
        for (section, key), value in self._overrides.items():
            config = override(config, section, key, value)
        check_together(config)
        limits.check_memory(config)
        return with_absolute_store(config, os.getcwd())


def software_version() -> str:
    """Return the version of the installed package; empty if it runs from sources that are not installed."""
    try:
        return version("taskqueue-scheduler")
    except PackageNotFoundError:
        return ""


def _serve(source: ConfigSource, accept_damage: bool, service: ServiceReports) -> None:
    config = source.read()
    set_up(config.daemon.log_level)
    # This umask stays: RocksDB makes files from its own threads, with bodies, proxy passwords and session ids in them.
    os.umask(0o077)
    sys.setswitchinterval(SWITCH_SECONDS)
    meters, clock = Meters(), Clock()
    disk = DiskSpace("" if config.store.url else config.store.path, config.store.min_free)

    opening = StoreOpener(accept_damage, meters)

    def begin(core: CoreConfig) -> Engine:
        return _open_engine(source.config, core, clock, meters, opening)

    def probe() -> None:
        opening.probe(source.config)

    def reload() -> tuple[CoreConfig, list[str]] | None:
        service.reloading()
        read = source.read_again()
        router.read_keys()
        if read is not None:
            webhook.reconfigure(source.config.webhook)
            disk.use(source.config.store.min_free)
        service.reloaded()
        return read

    # The webhook is closed last, so that its remaining events keep neither the store nor the address busy.
    with (
        closing(Webhook(config.webhook, software_version())) as webhook,
        Signals() as signals,
        closing(_router(config, meters)) as router,
    ):
        loop = Loop(router, signals, clock, meters, begin, probe, reload, webhook.tell, disk, service, source.core())
        loop.start()
        started = _start_line(config, opening.where, router, loop.engine)
        _print_line(started)
        service.ready(started)
        _log_memory(config, router.memory_bytes)
        _warn_of_readers(config)
        # By ipc the web process would have the role of the daemon's user there.
        with closing(WebChild(router.endpoint, config.daemon.web, router.keys.web if router.keys else None)):
            loop.run()
        log.info("stopped epoch=%d", loop.engine.epoch)


def _print_line(line: str) -> None:
    """Print a line on stdout; if stdout is a file on a full disk, the line is lost, but the daemon goes on."""
    try:
        write_line(sys.stdout, line)
    except OSError as error:
        log.error("stdout-lost error=%s line=%r", error.strerror, line)


def _router(config: Config, meters: Meters) -> Router:
    daemon = config.daemon
    group = group_number(daemon.ipc_group)
    connections = max_connections(raise_limit())
    keys = KeyRing(Path(daemon.keys)) if daemon.keys else None
    router = Router(
        daemon.bind, daemon.max_message, meters, memory_limit(config), connections,
        keys=keys, ipc_role=daemon.ipc_role, ipc_group=group,
    )  # fmt: skip
    if keys is None and not daemon.insecure:
        for bind, endpoint in zip(daemon.bind, router.endpoints, strict=False):
            if not _is_private(endpoint):
                router.close()
                raise SettingError(OPEN.format(bind=bind, endpoint=endpoint))
    return router


def _is_private(endpoint: str) -> bool:
    """Whether nothing beyond this machine reaches an address that was bound."""
    if endpoint.startswith(IPC):
        return True
    host = endpoint.removeprefix("tcp://").rpartition(":")[0].strip("[]").partition("%")[0]
    address = ip_address(host)
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _warn_of_readers(config: Config) -> None:
    """Warn if other users may read the store, as stores made before folders were private allow."""
    path = config.store.path
    if not config.store.url and (mode := stat.S_IMODE(os.stat(path).st_mode)) & 0o077:
        log.warning("store-readable mode=%04o; other users may read it; run: chmod -R go= %s", mode, quote(path))


def memory_limit(config: Config) -> int:
    """Return the bytes that the process may use: the setting, or the limit of machine or control groups if less."""
    return min(config.limits.memory, machine_bytes(), group_bytes() or config.limits.memory)


def _log_memory(config: Config, limit: int) -> None:
    """Log the bytes that the process may use and what bounds them; warn if the settings may take more."""
    known = f"limit_bytes={limit} machine_bytes={machine_bytes()} group_bytes={group_bytes() or 'none'}"
    log.info("memory %s", known)
    if not resident_bytes():
        log.warning("memory-unknown file=/proc/self/statm; the limit can't be enforced")
    if limits.needed_bytes(config) > limit:
        log.warning("memory-small %s; lower advanced.queue_bytes or store.cache", known)


def _open_engine(config: Config, core: CoreConfig, clock: Clock, meters: Meters, opening: StoreOpener) -> Engine:
    store = opening.open(config)
    ledger = Ledger(store, None if opening.inbox is None else opening.inbox.damaged)
    try:
        engine = Engine(ledger, boot_id(), core, clock.now(), config.store.durability, meters, opening.inbox)
    except BaseException:
        with suppress(StoreError):
            ledger.close()
        raise
    _freeze_garbage()
    return engine


def _freeze_garbage() -> None:
    """Collect garbage left by loading, and exempt everything loaded from later collections."""
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    gc.unfreeze()  # objects loaded by an earlier epoch
    gc.collect()
    gc.freeze()


def _start_line(config: Config, where: str, router: Router, engine: Engine) -> str:
    tasks = " ".join(f"{state}={count}" for state, count in _task_counts(engine.projects).items())
    return (
        f"taskqueue {software_version()} listens on {' and '.join(router.endpoints)}, store={where} "
        f"durability={config.store.durability} epoch={engine.epoch} projects={len(engine.projects)} {tasks}"
    )


def _task_counts(projects: Iterable[ProjectRecord]) -> Counter[str]:
    known = Counter(msgspec.structs.asdict(TaskCounts()))
    for project in projects:
        known.update(msgspec.structs.asdict(project.counts))
    return known


def _failed(code: int, why: str) -> int:
    for handler in log.handlers:
        handler.flush()
    for line in why.split("\n"):
        with suppress(OSError):  # There is no other place to report it.
            write_line(sys.stderr, f"taskqueue: {line}")
    return code
