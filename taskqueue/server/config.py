"""The config: a TOML file and environment variables, parsed into checked values; problems name file and key.

    [daemon] [store] [webhook]    DaemonSection, StoreSection, WebhookSection
    [limits] [advanced]           Limits, Advanced
    [buckets.NAME]                settings.Pace
    [defaults] [projects.NAME]    layers of project settings, defined and checked by settings

Every setting has a default, so no file is needed. conf/taskqueue.toml lists all settings; a link beside this file puts
it into the wheel.

The file is read at start and again on SIGHUP, when all settings except RESTART_ONLY change at once. A file with a
problem changes nothing.

Environment variables, for containers, override the file, and the command line overrides them. One rule: TASKQUEUE_, the
section and the key, in capitals: TASKQUEUE_ADVANCED_QUEUE_BYTES, TASKQUEUE_WEBHOOK_URL. A setting for which `taskqueue
daemon start` has an option is named like the option: TASKQUEUE_BIND, TASKQUEUE_STORE. A value is written as in the
file; a text may omit its quotes. An empty variable is ignored.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from importlib.resources import files
from itertools import chain
from os.path import abspath, dirname, join
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct, field, to_builtins

from taskqueue.calendar import Calendar
from taskqueue.core.model.events import EVENT_KINDS, EventKind
from taskqueue.defaults import URL
from taskqueue.errors import ConfigError, SettingError
from taskqueue.protocol.callers import UserRole
from taskqueue.protocol.choices import NAME_WORDS
from taskqueue.protocol.fields import ProjectName
from taskqueue.server.syncer import Durability, Handout
from taskqueue.settings import reader
from taskqueue.settings.change_text import HIDDEN, HIDDEN_FIELDS, pairs, value_text
from taskqueue.settings.description import ALONE, DURATION, SIZE, described
from taskqueue.settings.layer_size import too_long
from taskqueue.settings.reader import Note
from taskqueue.settings.settings import CoreConfig, Layer, Pace, Settings, contradictions, merge, problems
from taskqueue.texts.suggestions import did_you_mean, there_are

Address = Annotated[
    str,
    Meta(pattern=r"\A(tcp|ipc)://.+\Z", extra={"words": 'an address such as "tcp://127.0.0.1:7400"'}),
]
ADDRESSES: Final = ALONE | {"words": 'an address such as "tcp://127.0.0.1:7400", or a list of 1 to 16 of them'}
Addresses = Annotated[tuple[Address, ...], Meta(min_length=1, max_length=16, extra=ADDRESSES)]
WebBind = Annotated[
    str, Meta(pattern=r"\A(|.+:\d{1,5})\Z", extra={"words": 'empty or HOST:PORT, such as "127.0.0.1:7401"'})
]
WEB_ADDRESS: Final = {"words": 'empty or an address such as "https://example.org/hook"', "secret": True}
Folder = Annotated[
    str, Meta(pattern=r"\A(?![A-Za-z0-9+.-]+://).", extra={"words": "a folder (store.url names a database)"})
]
DATABASE: Final = {"words": 'empty or an address such as "postgresql://taskqueue@db.example/crawl"', "secret": True}
DatabaseUrl = Annotated[str, Meta(pattern=r"\A(|postgres(ql)?://.*)\Z", extra=DATABASE)]
SchemaName = Annotated[
    str,
    Meta(
        pattern=r"\A[a-z_][a-z0-9_]{0,47}\Z", extra={"words": 'a name of a to z, 0 to 9 and "_", such as "taskqueue"'}
    ),
]
MESSAGE_BYTES_LEAST: Final = 512 << 10
"""Smallest ``daemon.max_message``.

The longest view of a project must fit (384 KiB, see ``layer_size``), with its envelope; pages of projects, fetchers and
tasks end where a message is full.
"""
LogLevel = Literal["debug", "info", "warning", "error"]


class DaemonSection(Struct, frozen=True):
    """[daemon]. Attributes without an explanation are those of settings.CoreConfig.

    Attributes:
        bind: ZeroMQ addresses to listen on; a single one may be written as a text.
        keys: access file of the keys that may connect by TCP; empty if every peer may. A relative path starts where the
            store's does.
        insecure: listen beyond this machine without keys.
        ipc_role: role of users who connect by ``ipc://``.
        ipc_group: group whose members may connect by ``ipc://``; empty for the group of the daemon's process.
        web: HOST:PORT where the daemon's own web process listens; empty for none.
    """

    bind: Addresses = (URL,)
    keys: str = ""
    insecure: bool = False
    ipc_role: UserRole = "admin"
    ipc_group: str = ""
    web: WebBind = ""
    max_message: Annotated[int, Meta(ge=MESSAGE_BYTES_LEAST, le=1 << 30, extra=SIZE)] = 8 << 20
    log_level: LogLevel = "info"
    auto_create: bool = False
    fetcher_timeout: Annotated[float, Meta(gt=0, le=1e6, extra=DURATION)] = 60.0
    session_timeout: Annotated[float, Meta(gt=0, le=1e9, extra=DURATION)] = 3600.0
    max_sessions: Annotated[int, Meta(ge=1, le=1_000_000)] = 10_000


class StoreSection(Struct, frozen=True):
    """Section [store].

    Attributes:
        path: folder of the store, created if absent; ``load`` makes a relative one absolute.
        url: URL of a PostgreSQL database to use instead of the folder; empty for the folder. It may contain a password.
        schema: schema of the store's tables in that database.
        timeout: seconds that the database may take for an answer.
        durability: commit: synced before a reply; interval: synced within 50 ms; none: left to the operating system.
        handout: when a task leaves for its fetcher: written: after the write of its lease; synced: after its sync.
        cache: bytes of the store's block cache.
        min_free: bytes of the disk to keep free; below, no new tasks are accepted.
    """

    path: Folder = "data/store"
    url: DatabaseUrl = ""
    schema: SchemaName = "taskqueue"
    timeout: Annotated[float, Meta(ge=1, le=3600, extra=DURATION)] = 10.0
    durability: Durability = "commit"
    handout: Handout = "written"
    cache: Annotated[int, Meta(ge=1 << 20, le=1 << 40, extra=SIZE)] = 128 << 20
    min_free: Annotated[int, Meta(ge=0, le=1 << 50, extra=SIZE)] = 512 << 20


class Limits(Struct, frozen=True):
    """[limits]. Attributes without an explanation are those of settings.CoreConfig.

    Attributes:
        memory: bound of the process in bytes; lower if the machine has less.
    """

    memory: Annotated[int, Meta(ge=1 << 20, le=1 << 50, extra=SIZE)] = 1 << 30
    max_projects: Annotated[int, Meta(ge=1, le=1_000_000)] = 20_000
    max_leases: Annotated[int, Meta(ge=1, le=100_000_000)] = 100_000


class Advanced(Struct, frozen=True):
    """[advanced]: limits in memory, per turn and per message; attributes as in settings.CoreConfig."""

    queue_bytes: Annotated[int, Meta(ge=1 << 16, le=1 << 40, extra=SIZE)] = 256 << 20
    head_tasks: Annotated[int, Meta(ge=2, le=10_000_000)] = 16_384
    head_bytes: Annotated[int, Meta(ge=1024, le=1 << 40, extra=SIZE)] = 16 << 20
    slots_in_memory: Annotated[int, Meta(ge=2, le=100_000_000)] = 32_768
    turn_tasks: Annotated[int, Meta(ge=1, le=1_000_000)] = 2048
    select_bytes: Annotated[int, Meta(ge=1, le=1 << 30, extra=SIZE)] = 1 << 20


class WebhookSection(Struct, frozen=True):
    """Section [webhook].

    Attributes:
        url: address that receives events by POST; empty for none. It may contain ``user:password@``.
        events: kinds of events to send.
        timeout: seconds that an attempt may take.
        attempts: attempts per event, including the first one.

    Raises:
        ValueError: the URL is not one of HTTP.
    """

    url: Annotated[str, Meta(extra=WEB_ADDRESS)] = ""
    events: Annotated[tuple[EventKind, ...], Meta(min_length=1, max_length=len(EVENT_KINDS))] = (
        "paused",
        "finished",
        "error-burst",
        "growing",
        "damaged",
        "tick-skipped",
    )
    timeout: Annotated[float, Meta(gt=0, le=600, extra=DURATION)] = 10.0
    attempts: Annotated[int, Meta(ge=1, le=100)] = 5

    def __post_init__(self) -> None:
        if self.url and not _is_web_address(self.url):
            raise ValueError("url")


class Config(Struct, frozen=True):
    """The whole config file."""

    daemon: DaemonSection = DaemonSection()
    store: StoreSection = StoreSection()
    limits: Limits = Limits()
    advanced: Advanced = Advanced()
    webhook: WebhookSection = WebhookSection()
    defaults: Layer = field(default_factory=dict)
    projects: Mapping[str, Layer] = field(default_factory=dict)
    buckets: Mapping[str, Pace] = field(default_factory=dict)


DATABASE_SCHEMES: Final = ("postgresql://", "postgres://")

SECTIONS: Final[dict[str, type[Struct]]] = {
    "daemon": DaemonSection,
    "store": StoreSection,
    "limits": Limits,
    "advanced": Advanced,
    "webhook": WebhookSection,
}

CALENDAR: Final = Calendar()

UNTOLD: Final = {
    *(key for kind in SECTIONS.values() for key, each in described(kind).items() if each.secret),
    *HIDDEN_FIELDS,
    *HIDDEN,
}
"""Keys of settings whose values are never logged; URLs of a database or a webhook contain passwords."""

RESTART_ONLY: Final = (
    ("daemon", "bind"),
    ("daemon", "keys"),
    ("daemon", "insecure"),
    ("daemon", "ipc_role"),
    ("daemon", "ipc_group"),
    ("daemon", "web"),
    ("daemon", "max_message"),
    ("store", "path"),
    ("store", "url"),
    ("store", "schema"),
    ("store", "timeout"),
    ("store", "durability"),
    ("store", "handout"),
    ("store", "cache"),
    ("limits", "memory"),
)
"""Settings whose change takes effect at the next start."""


def shipped() -> str:
    """Return the text of conf/taskqueue.toml, with every setting, its default, and an explanation."""
    return files("taskqueue.server").joinpath("taskqueue.toml").read_text("utf-8")


def load(path: str | None) -> Config:
    """Read a config file; None for all defaults.

    The path of the store becomes absolute, relative to the folder of the file, or to the working directory without a
    file.

    Raises:
        ConfigError: it can't be read.
        SettingError: all problems of the file, one a line.
    """
    config = Config() if path is None else build(_read(path), path)
    return with_absolute_store(config, "" if path is None else dirname(path))


def with_absolute_store(config: Config, folder: str) -> Config:
    """Make the paths of the store and of the access file absolute, relative to ``folder``."""
    store = msgspec.structs.replace(config.store, path=abspath(join(folder, config.store.path)))
    keys = config.daemon.keys and abspath(join(folder, config.daemon.keys))
    daemon = msgspec.structs.replace(config.daemon, keys=keys)
    return msgspec.structs.replace(config, daemon=daemon, store=store)


def build(tables: Mapping[str, Any], path: str) -> Config:
    """Check a parsed file and convert it; ``path`` is for the error message.

    Raises:
        SettingError: all problems, one a line.
    """
    found: list[str] = []
    sections = {name: _section(name, table, tables, found.append) for name, table in tables.items()}
    if found:
        raise SettingError("\n".join(f"{path}: {problem}" for problem in found))
    return Config(**sections)


def core_config(config: Config, version: str) -> CoreConfig:
    """Extract the settings that the core needs."""
    daemon, limits, advanced = config.daemon, config.limits, config.advanced
    return CoreConfig(
        defaults=config.defaults,
        projects=dict(config.projects),
        buckets=dict(config.buckets),
        auto_create=daemon.auto_create,
        fetcher_timeout=daemon.fetcher_timeout,
        session_timeout=daemon.session_timeout,
        max_sessions=daemon.max_sessions,
        head_tasks=advanced.head_tasks,
        head_bytes=advanced.head_bytes,
        queue_bytes=advanced.queue_bytes,
        slots_in_memory=advanced.slots_in_memory,
        max_projects=limits.max_projects,
        max_leases=limits.max_leases,
        synced_handout=config.store.handout == "synced",
        turn_tasks=advanced.turn_tasks,
        # The daemon's messages are no longer than those that it accepts.
        select_bytes=min(advanced.select_bytes, daemon.max_message),
        max_message=daemon.max_message,
        version=version,
    )


ABSTRACT: Final = "ipc://@"
"""Beginning of addresses in the abstract namespace, which have no file."""
NO_FILE: Final = (
    "daemon.bind: {bind} has no file with a mode, so all users of this machine reach it, and with daemon.keys only "
    "some may come in; name a path, such as ipc:///run/taskqueue/socket"
)
"""Why a daemon with keys does not start at an address in the abstract namespace."""


def check_together(config: Config) -> None:
    """Check that hand-outs are synced only if replies are, and that keys are asked at all addresses but files.

    Raises:
        SettingError: settings contradict each other.
    """
    daemon, store = config.daemon, config.store
    if daemon.keys and (abstract := [bind for bind in daemon.bind if bind.startswith(ABSTRACT)]):
        raise SettingError(NO_FILE.format(bind=abstract[0]))
    if store.handout == "synced" and store.durability != "commit":
        raise SettingError(
            f'store.handout = "synced" needs store.durability = "commit", not "{store.durability}"; '
            'or set store.handout = "written"'
        )


def reloaded(old: Config, new: Config) -> tuple[Config, list[str]]:
    """Return the config in force after a reload, and the names of settings whose change waits for a restart."""
    waiting = []
    for section, key in RESTART_ONLY:
        before, after = getattr(old, section), getattr(new, section)
        if getattr(before, key) != getattr(after, key):
            waiting.append(f"{section}.{key}")
            kept = msgspec.structs.replace(after, **{key: getattr(before, key)})
            new = msgspec.structs.replace(new, **{section: kept})
    return new, waiting


def changed(old: Config, new: Config) -> list[str]:
    """List the settings that differ in effect, such as ``projects.news.rate=5 (was 20)``.

    Another spelling of a value, or a default written or left out, is not a difference. Settings that may contain
    passwords are listed without values.
    """
    names = [name for name in Config.__struct_fields__ if name not in ("defaults", "projects")]
    sections = (_changed(name, to_builtins(getattr(old, name)), to_builtins(getattr(new, name))) for name in names)
    defaults = _changed("defaults", to_builtins(merge(old.defaults)), to_builtins(merge(new.defaults)))
    return [*chain(*sections), *defaults, *_changed_projects(old, new)]


def _changed_projects(old: Config, new: Config) -> Iterator[str]:
    for name in [*old.projects, *(name for name in new.projects if name not in old.projects)]:
        before, after = old.projects.get(name, {}), new.projects.get(name, {})
        said = before.keys() | after.keys() if before != after else ()
        settings = (to_builtins(merge(config.defaults, layer)) for config, layer in ((old, before), (new, after)))
        was, is_now = ({key: value for key, value in each.items() if key in said} for each in settings)
        found = list(_changed(reader.path("projects", name), was, is_now))
        # A section makes its project, even if it is empty.
        yield from found if found or name in old.projects else [reader.path("projects", name)]


def _changed(where: str, old: object, new: object, *, is_told: bool = True) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            told = is_told and key not in UNTOLD
            yield from _changed(f"{where}.{key}" if where else key, old.get(key), new.get(key), is_told=told)
    elif old != new:
        is_told = is_told and not isinstance(old, dict) and not isinstance(new, dict)
        yield pairs([_text_by_name(where, old)], _text_by_name(where, new), ()) if is_told else where


def _text_by_name(where: str, value: Any) -> dict[str, str]:
    return {} if value is None else {where: value_text(value)}


def meant_key(section: str, key: str, value: object) -> str:
    """Return the key of the setting: a URL given as ``store.path`` means ``store.url``."""
    is_url = isinstance(value, str) and value.startswith(DATABASE_SCHEMES)
    return "url" if (section, key) == ("store", "path") and is_url else key


def override(config: Config, section: str, key: str, value: object) -> Config:
    """Replace one setting of the config, such as by the command line.

    A URL of a database may stand for the store's folder, and a folder replaces a URL.

    Raises:
        SettingError: the value is invalid.
    """
    key = meant_key(section, key, value)
    if (section, key) == ("store", "path"):
        config = override(config, "store", "url", "")
    said = reader.read(section, {key: value}, SECTIONS[section], _refuse)
    changed = msgspec.structs.replace(getattr(config, section), **{key: getattr(said, key)})
    return msgspec.structs.replace(config, **{section: changed})


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingError(f"{path}: not TOML: {error}") from None
    except UnicodeDecodeError as error:
        raise SettingError(f"{path}: not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise SettingError(f"{path}: nested too deep") from None


def _refuse(problem: str) -> None:
    raise SettingError(problem)


def _section(name: str, table: Any, tables: Mapping[str, Any], note: Note) -> Any:
    """Convert a section to a value of its type, a layer, or several by name; problems are noted."""
    if name not in Config.__struct_fields__:
        note(f"{name} is not a section; {there_are(name, Config.__struct_fields__)}")
    elif not isinstance(table, dict):
        note(f"{name} must be a section, not {reader.shown(table)}")
    elif name in SECTIONS:
        return reader.read(name, _without_strays(name, table, note), SECTIONS[name], note)
    elif name == "defaults":
        return _layer(name, table, tables, note)
    else:
        return {each: _named(name, each, part, tables, note) for each, part in table.items()}
    return None


def _without_strays(name: str, table: Mapping[str, Any], note: Note) -> dict[str, Any]:
    """Return a section's table without the keys of other sections, which are noted."""
    kept = dict(table)
    for key in table:
        if key not in SECTIONS[name].__struct_fields__ and (sections := _sections_of(key)):
            note(f"{reader.path(name, key)} is not a setting; did you mean {' or '.join(sections)}?")
            del kept[key]
    return kept


def _sections_of(key: str) -> list[str]:
    return [f"{section}.{key}" for section, kind in SECTIONS.items() if key in kind.__struct_fields__]


def _named(section: str, name: str, table: Any, tables: Mapping[str, Any], note: Note) -> Layer | Pace | None:
    """Convert the layer of a named project, or the pace of a named bucket."""
    where = reader.path(section, name)
    if not _is_name(name):
        note(f"{where}: a {section[:-1]} name is 1 to 64 {NAME_WORDS}")
    if not isinstance(table, dict):
        note(f"{where} must be a section, not {reader.shown(table)}")
        return None
    if section == "projects":
        return _layer(where, table, tables, note)
    found: list[str] = []
    pace = reader.read(where, table, Pace, found.append)
    if not found and "rate" not in table:
        found.append(f"{where}.rate must be given: {reader.must_be('', 'rate', Pace).removeprefix('rate must be ')}")
    for problem in found:
        note(problem)
    return pace


def _layer(where: str, layer: Layer, tables: Mapping[str, Any], note: Note) -> Layer:
    """Check a layer of project settings; it stays unconverted, because layers are merged first."""
    for problem in _layer_problems(where, layer, tables):
        note(problem)
    return layer


def _layer_problems(where: str, layer: Mapping[str, Any], tables: Mapping[str, Any]) -> Iterator[str]:
    found = [*_single_problems(where, layer, tables), *(f"{where}.{reason}" for reason in contradictions(layer))]
    yield from found or (f"{where}.{reason}" for reason in too_long(layer, CALENDAR))


def _single_problems(where: str, layer: Mapping[str, Any], tables: Mapping[str, Any]) -> Iterator[str]:
    """Yield problems of single settings."""
    for key, value in layer.items():
        if key not in Settings.__struct_fields__ and isinstance(value, dict) and where != "defaults":
            hint = did_you_mean(key, Settings.__struct_fields__) or 'a name with a dot needs quotes: [projects."a.b"]'
            yield f"{reader.path(where, key)} is not a setting; {hint}"
        else:
            found = [*problems(where, {key: value}, CALENDAR)]
            yield from found
            if key == "on_finished" and isinstance(value, dict) and not found and not _finished_url(value, tables):
                yield f'{where}.on_finished.url must be given: what to push, such as "data:,on_finished"'
        if key == "bucket" and isinstance(value, str) and _is_name(value) and not _has_bucket(tables, value):
            yield f"{where}.bucket: there is no section [buckets.{value}]"


def _finished_url(said: Mapping[str, Any], tables: Mapping[str, Any]) -> Any:
    """Return the URL of an ``on_finished`` table, which ``[defaults]`` may complete."""
    defaults = tables.get("defaults")
    under = defaults.get("on_finished") if isinstance(defaults, dict) else None
    return ((under if isinstance(under, dict) else {}) | dict(said)).get("url")


def _has_bucket(tables: Mapping[str, Any], name: str) -> bool:
    buckets = tables.get("buckets")
    return isinstance(buckets, dict) and name in buckets


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:  # brackets without an address, an invalid port
        return False
    return parts.scheme in ("http", "https") and host != "" and host.isascii() and url.isprintable() and " " not in url


def _is_name(name: str) -> bool:
    try:
        msgspec.convert(name, ProjectName)
    except msgspec.ValidationError:
        return False
    return True


PREFIX: Final = "TASKQUEUE_"
OPTIONS: Final = {
    ("daemon", "bind"): "BIND",
    ("daemon", "log_level"): "LOG_LEVEL",
    ("daemon", "web"): "WEB",
    ("store", "path"): "STORE",
    ("store", "durability"): "DURABILITY",
}
"""Names of the options of ``taskqueue daemon start``, by section and key."""

SURELY_ALIKE: Final = 0.9
"""Similarity, from 0 to 1, that makes a variable a misspelt one; ``STORE_PORT`` and ``STORE_PATH`` have 0.8."""


def variable(section: str, key: str) -> str:
    """Return the name of a setting's variable."""
    return PREFIX + OPTIONS.get((section, key), _long(section, key))


def with_environment(config: Config, environ: Mapping[str, str]) -> Config:
    """Override the config by environment variables.

    Raises:
        SettingError: all problems, one a line, each with the name of its variable.
    """
    problems = [*_misspelt(environ)]
    for section, kind in SECTIONS.items():
        for key in kind.__struct_fields__:
            name = variable(section, key)
            if PREFIX + _long(section, key) != name and environ.get(PREFIX + _long(section, key)):
                problems.append(f"{PREFIX}{_long(section, key)} is not read; this setting is {name}")
            elif text := environ.get(name, "").strip():
                values = [*_values(text)]
                found = [_problem(section, key, value) for value in values]
                if None in found:
                    config = override(config, section, key, values[found.index(None)])
                else:
                    problems.append(f"{name}{found[-1]}")
    if problems:
        raise SettingError("\n".join(problems))
    return config


def set_elsewhere(environ: Mapping[str, str], options: Mapping[tuple[str, str], object]) -> dict[tuple[str, str], str]:
    """Map the settings that variables or options set, by section and key, to the name of the variable or option."""
    found = {}
    for section, kind in SECTIONS.items():
        for key in kind.__struct_fields__:
            if text := environ.get(variable(section, key), "").strip():
                found[section, meant_key(section, key, text)] = variable(section, key)
    for (section, key), value in options.items():
        option = OPTIONS.get((section, key), key).lower().replace("_", "-")
        found[section, meant_key(section, key, value)] = f"--{option}"
    return found


SETTING: Final = re.compile(rf"\b({'|'.join(SECTIONS)})\.(\w+)")
"""Name of a setting in the words of a problem."""


def placed(problems: str, path: str | None, elsewhere: Mapping[tuple[str, str], str]) -> str:
    """Prefix each line that begins with a setting by where the settings are set that it names.

    Args:
        problems: problems that show only when all sources are merged, one a line.
        path: config file; None if there is none.
        elsewhere: variables and options by section and key, as from ``set_elsewhere``; all else is set in the file.
    """
    return "\n".join(_placed(line, path, elsewhere) for line in problems.split("\n"))


def _placed(problem: str, path: str | None, elsewhere: Mapping[tuple[str, str], str]) -> str:
    said = [(found[1], found[2]) for found in SETTING.finditer(problem)]
    named = [(section, key) for section, key in said if key in SECTIONS[section].__struct_fields__]
    if not named or not problem.startswith(".".join(named[0])):
        return problem
    places = dict.fromkeys(elsewhere.get(setting, path) for setting in named)
    return ": ".join(filter(None, [" and ".join(filter(None, places)), problem]))


def _misspelt(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield problems of almost certainly misspelt variables; others, such as those of Kubernetes, are not ours."""
    known = {
        _long(section, key): (section, key) for section, kind in SECTIONS.items() for key in kind.__struct_fields__
    }
    for name in environ:
        section, _, key = name.removeprefix(PREFIX).lower().partition("_")
        is_ours = name.startswith(PREFIX) and section in SECTIONS and name.removeprefix(PREFIX) not in known
        if not is_ours or not environ[name].strip():
            continue
        elsewhere = [_long(other, key) for other, kind in SECTIONS.items() if key in kind.__struct_fields__]
        alike = elsewhere or get_close_matches(name.removeprefix(PREFIX), known, 1, SURELY_ALIKE)
        if alike:
            yield f"{name} is not a setting; did you mean {variable(*known[alike[0]])}?"


def _long(section: str, key: str) -> str:
    return f"{section}_{key}".upper()


def _values(text: str) -> Iterator[Any]:
    """Yield the possible values of a text: itself, or the TOML value that it spells."""
    yield text
    try:
        yield from tomllib.loads(f"value = {text}").values()
    except (tomllib.TOMLDecodeError, RecursionError):
        return


def _problem(section: str, key: str, value: Any) -> str | None:
    """Describe the problem of a value, without the setting's name; None if it is valid."""
    key = meant_key(section, key, value)
    problem = next(iter(reader.problems(section, {key: value}, SECTIONS[section])), None)
    return problem and problem.removeprefix(reader.path(section, key))
