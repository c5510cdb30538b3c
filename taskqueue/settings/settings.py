"""Settings of a project and of the core, and how layers of them are merged.

A project's settings come in layers, the later wins: the defaults below, ``[defaults]`` of the config, the project's
section of the config, and overrides by ``project-set``. Each layer is a plain map, checked as it is merged; tables
(``slot``, ``slot.patterns``, ``keep``, ``fetch``, ``on_finished``, ``on_failure``, ``cron``) are merged key by key. A
cron entry or a slot pattern is one value: a layer that names it replaces all of it, or removes it with None.
``slot.delay`` and ``slot.rate`` exclude each other: a layer sets one of them, which replaces either one of the layers
below.

What is valid in each layer is valid when merged, so a new config can't invalidate overrides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct, field

from taskqueue.protocol.choices import NAME_WORDS
from taskqueue.protocol.fields import GroupName, Retries, Setting, TimeoutSeconds
from taskqueue.settings import own_tasks, reader
from taskqueue.settings.description import DURATION, Description, described
from taskqueue.settings.environment import Environment
from taskqueue.settings.own_tasks import (
    NO_ENTRIES,
    PLAIN_ENTRY,
    PLAIN_GRAPH_TASK,
    PLAIN_TEMPLATE,
    CronEntry,
    GraphTask,
    Template,
)
from taskqueue.settings.slots import (
    PLAIN_CHOICE,
    FromOne,
    SlotSettings,
    says_rate,
    wrong_choice,
    wrong_patterns,
)

Layer = Mapping[str, Setting]
"""Settings by name, only those that a layer sets."""

CRASHES_MOST: Final = 15
"""Crashes of a task that are counted, at most."""

WHOLES: Final = ("max_queue", "max_tasks", "max_depth", "max_processing")
"""Settings that count tasks."""

FromZero = Annotated[float, Meta(ge=0, extra={"words": "a whole number of at least 0 or inf"})]
Duration = Annotated[float, Meta(ge=0, extra=DURATION)]
Name = Annotated[GroupName, Meta(extra={"words": f"up to 64 {NAME_WORDS}"})]


class Pace(Struct, frozen=True, forbid_unknown_fields=True):
    """Bucket that several projects share: ``[buckets.NAME]``."""

    rate: Annotated[float, Meta(ge=0)] = 1.0
    burst: Annotated[float, Meta(ge=1)] = 3.0


class KeepSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The setting ``keep`` of a project.

    Attributes:
        success, failed, cancelled: seconds for which URL, body and history of a task with this outcome are kept; inf:
            for ever.
        then: afterwards the task itself is remembered, so that its URL is not fetched again, or forgotten.
    """

    success: Duration = inf
    failed: Duration = inf
    cancelled: Duration = inf
    then: Literal["remember", "forget"] = "remember"


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """Settings by which the tasks of one project run. Durations in seconds may also be texts such as "30d".

    Attributes:
        rate: tasks dispatched a second, on average; inf: unlimited; 0: none.
        burst: tasks that may be dispatched at once after a quiet time; at least 1.
        processing_timeout: seconds that a fetcher has for a task without a timeout of its own.
        retries: further attempts after the first failure, for a task without a number of its own.
        retry_delay: seconds before each further attempt; the last one applies to all that follow.
        max_queue: unfinished tasks at which new ones are rejected; inf: unlimited.
        max_tasks: tasks, unfinished or finished, at which new ones are rejected, follow-ups too; inf: unlimited.
        max_depth: deeper follow-ups are ignored; a task that was pushed by itself has depth 0.
        max_processing: leases at once, at most; inf: unlimited.
        max_crashes: fetchers in a row that fall silent while they run a task, until that counts as a failure.
        order: order of ready tasks of one priority. arrival: the first pushed goes first, also after a retry; due: the
            first that became ready; newest: the last pushed, also after a retry.
        weight: share of the dispatches, in proportion to the weights of other projects that have work.
        fail_pause_num: failures in a row after which the project pauses itself; 0: never.
        pause_time: seconds of this pause until a few tasks are dispatched to see whether they fail, too.
        error_burst: failed attempts within five minutes after which users are notified; inf: never.
        growing: new tasks of a slot that are judged together; users are notified if they look like those of a trap,
            such as a calendar. inf: never.
        group: name for several projects, by which commands take them together.
        bucket: name of a bucket of the config that the project shares. Its own ``rate`` is then unlimited, unless the
            project's section or ``project-set`` sets one.
        slot: how tasks are divided into slots, and the pace of each slot.
        active: hours in which tasks are dispatched, such as "22:00-06:00 Europe/Berlin"; empty: always.
        keep: how long finished tasks are kept.
        fetch: sent beside the tasks; the client merges it under the ``fetch`` of each task.
        on_finished: task to push when the project has finished; None: none.
        on_failure: task to push for each task that has used up its retries; None: none.
        cron: cron entries by name.

    Raises:
        ValueError: a setting that counts tasks is not a whole number.
    """

    rate: Annotated[float, Meta(ge=0)] = 1.0
    burst: Annotated[float, Meta(ge=1)] = 3.0
    processing_timeout: Annotated[TimeoutSeconds, Meta(extra=DURATION)] = 600.0
    retries: Retries = 3
    retry_delay: Annotated[
        tuple[Annotated[float, Meta(ge=0, le=1e9, extra=DURATION)], ...], Meta(min_length=1, max_length=100)
    ] = (30.0, 3600.0, 21600.0, 43200.0, 86400.0)  # fmt: skip
    max_queue: FromOne = inf
    max_tasks: FromOne = inf
    max_depth: FromZero = inf
    max_processing: FromOne = inf
    max_crashes: Annotated[int, Meta(ge=1, le=CRASHES_MOST)] = 3
    order: Literal["arrival", "due", "newest"] = "arrival"
    weight: Annotated[float, Meta(ge=0.1, le=1000)] = 1.0
    fail_pause_num: Annotated[int, Meta(ge=0, le=1_000_000)] = 10
    pause_time: Annotated[float, Meta(gt=0, le=1e9, extra=DURATION)] = 300.0
    error_burst: Annotated[float, Meta(ge=1)] = 100.0
    growing: Annotated[float, Meta(ge=100)] = 10_000.0
    group: Name = ""
    bucket: Name = ""
    slot: SlotSettings = SlotSettings()
    active: str = ""
    keep: KeepSettings = KeepSettings()
    fetch: dict[str, Any] = {}
    on_finished: Template | None = None
    on_failure: Template | None = None
    cron: dict[str, CronEntry] = {}

    def __post_init__(self) -> None:
        for name in WHOLES:
            number = getattr(self, name)
            if number != inf and number % 1:
                raise ValueError(name)


class CoreConfig(Struct, frozen=True):
    """Everything that the core gets from outside.

    Attributes:
        defaults, projects: layers of settings, for all projects and by name; projects named here are created.
        buckets: shared buckets by name.
        auto_create: a new-task for an unknown project creates it.
        fetcher_timeout: seconds of silence after which the daemon takes back a fetcher's tasks.
        session_timeout: seconds of silence after which a session is forgotten, with its kept outcomes.
        max_sessions: sessions kept at once; above it the one silent for longest of the owner with most is forgotten.
        head_tasks, head_bytes: what each order of a project keeps in memory, at most.
        queue_bytes: what the orders of all projects keep in memory, at most; see ``memory``.
        slots_in_memory: slots kept in memory, of all projects; the others are in the store.
        max_projects: projects at which no more are created, except those that the config names.
        max_leases: tasks that fetchers have at once, at most, of all projects; one connection has at most half of
            them.
        turn_tasks: tasks promoted, expired or dispatched in one turn, at most.
        select_bytes: about the size at which a select message is full, but at most a quarter of ``max_message``.
        has_room: False if the disk is nearly full: the daemon takes nothing that lets the store grow and dispatches
            nothing, but takes ``done`` with its follow-ups.
        synced_handout: True if a task leaves for its fetcher when its lease is on disk; False if it leaves at once.
        max_message: longest message taken, in bytes; sent to clients.
        version: version of the software; sent to clients.
    """

    defaults: Layer = field(default_factory=dict)
    projects: dict[str, Layer] = field(default_factory=dict)
    buckets: dict[str, Pace] = field(default_factory=dict)
    auto_create: bool = False
    fetcher_timeout: float = 60.0
    session_timeout: float = 3600.0
    max_sessions: int = 10_000
    head_tasks: int = 16_384
    head_bytes: int = 16 << 20
    queue_bytes: int = 256 << 20
    slots_in_memory: int = 32_768
    max_projects: int = 20_000
    max_leases: int = 100_000
    turn_tasks: int = 2048
    select_bytes: int = 1 << 20
    has_room: bool = True
    synced_handout: bool = False
    max_message: int = 8 << 20
    version: str = ""


def merge(*layers: Layer) -> Settings:
    """Merge layers and check the result; the first layer is for all projects.

    Raises:
        Rejected: with the code ``setting`` and a reason that names the key.
    """
    merged: dict[str, Setting] = {}
    for layer in layers:
        overlay(merged, layer)
        _refuse(own_tasks.wrong_entries(layer.get("cron")))
        _refuse(wrong_patterns(_table(layer, "slot").get("patterns")))
        _refuse(contradictions(layer))
    if merged.get("bucket") and not any("rate" in layer for layer in layers[1:]):
        merged["rate"] = inf
    merged["cron"] = _without_none(merged.get("cron", {}))
    slot = _table(merged, "slot")
    if "patterns" in slot:
        merged["slot"] = {**slot, "patterns": _without_none(slot["patterns"])}
    settings = reader.convert(merged, Settings)
    _refuse(_wrong_meaning(settings))
    return settings


def overlay(merged: dict[str, Setting], layer: Layer, kind: type[Struct] = Settings) -> None:
    """Merge a layer into those below: tables key by key; the delay or the rate of slots replaces either one.

    Args:
        kind: type of both tables.
    """
    if kind is SlotSettings:
        _make_way(merged, layer)
    known = described(kind)
    for key, value in layer.items():
        merged[key] = _joined(merged.get(key), value, known.get(key))


def _make_way(slot: dict[str, Setting], over: Layer) -> None:
    """Drop the delay or rate that a layer of the setting ``slot`` replaces."""
    if "delay" in over and "rate" not in over:
        slot.pop("rate", None)
    elif says_rate(over):
        slot.pop("delay", None)


def _joined(under: Setting, value: Setting, setting: Description | None) -> Setting:
    is_table = setting is not None and setting.form == "table"
    if not (is_table and isinstance(under, dict) and isinstance(value, dict)):
        return value
    if setting is None or setting.section is None:
        return {**under, **value}
    joined = dict(under)
    overlay(joined, value, setting.section)
    return joined


def check(settings: Settings, environment: Environment, known: Mapping[str, CronEntry] = NO_ENTRIES) -> None:
    """Check what only the environment can read; entries that are ``known`` have been checked before.

    Raises:
        Rejected: with the code ``setting`` and a reason that names the key.
    """
    _refuse(_wrong_meaning(settings, environment, known))


def problems(where: str, layer: Layer, environment: Environment) -> Iterator[str]:
    """Report all that is wrong with each setting of a layer of the config file, by its path from section ``where``.

    ``merge`` and ``check`` accept a layer without problems and ``contradictions``; of others they report the first.
    """
    for key, value in layer.items():
        found = _setting_problems(key, value, environment)
        yield from (f"{where}.{reason}" for reason in found)


def contradictions(layer: Layer) -> Iterator[str]:
    """Report settings of a layer that are valid one by one but contradict each other."""
    slot = _table(layer, "slot")
    if "delay" in slot and says_rate(slot):
        yield "slot: give one of delay and rate"


def _setting_problems(key: str, value: Setting, environment: Environment) -> Iterator[str]:
    """Report a wrong form, then the wrong meanings of the parts that have a valid form."""
    found: list[str] = []
    settings = reader.read("", {key: value}, Settings, found.append)
    yield from found
    if key == "cron":
        yield from own_tasks.wrong_entries(value)
    if key == "slot" and isinstance(value, dict):
        yield from wrong_patterns(value.get("patterns"))
    yield from _wrong_meaning(settings, environment)


def as_layer(settings: Settings) -> dict[str, Setting]:
    """Return all settings as a map, for users: ``merge({}, as_layer(settings))`` gives the same settings.

    Bodies are not converted, so that any MessagePack value survives. The delay of slots is missing if they have a rate.
    """
    finished, failure = settings.on_finished, settings.on_failure
    return msgspec.structs.asdict(settings) | {
        "retry_delay": list(settings.retry_delay),
        "on_finished": None if finished is None else _said(finished, PLAIN_TEMPLATE),
        "on_failure": None if failure is None else _said(failure, PLAIN_TEMPLATE),
        "cron": {name: _entry_table(entry) for name, entry in settings.cron.items()},
        "slot": _slot_table(settings.slot),
        "keep": msgspec.structs.asdict(settings.keep),
    }


def _entry_table(entry: CronEntry) -> dict[str, Setting]:
    table = _said(entry, PLAIN_ENTRY)
    if entry.tasks:
        return table | {"tasks": {name: _graph_task_table(task) for name, task in entry.tasks.items()}}
    return table | {"task": _said(entry.task, PLAIN_TEMPLATE)}


def _graph_task_table(task: GraphTask) -> dict[str, Setting]:
    table = _said(task, PLAIN_GRAPH_TASK)
    return table | {"after": list(task.after)} if task.after else table


def _slot_table(slot: SlotSettings) -> dict[str, Setting]:
    patterns = {pattern: _said(choice, PLAIN_CHOICE) for pattern, choice in slot.patterns.items()}
    table = msgspec.structs.asdict(slot) | {"patterns": patterns}
    if slot.rate != inf:
        del table["delay"]
    return table


def _said(value: Struct, plain: Struct) -> dict[str, Any]:
    return {key: field for key, field in msgspec.structs.asdict(value).items() if field != getattr(plain, key)}


def _table(layer: Layer, name: str) -> Layer:
    """Return a setting that is a table; empty if it is not set or not a table."""
    table = layer.get(name)
    return table if isinstance(table, dict) else {}


def _without_none(table: Setting) -> Setting:
    return {key: value for key, value in table.items() if value is not None} if isinstance(table, dict) else table


# ---------------------------------------------------------------------------------------- what can't be


def _refuse(reasons: Iterator[str]) -> None:
    for reason in reasons:
        reader.refuse(reason)


def _wrong_meaning(
    settings: Settings, environment: Environment | None = None, known: Mapping[str, CronEntry] = NO_ENTRIES
) -> Iterator[str]:
    """Report what the types can't check; without an environment, nothing that only it can read."""
    if environment is not None:
        yield from own_tasks.attempt("active", lambda: environment.hours(settings.active, 0.0))
        yield from own_tasks.unpackable("fetch", settings.fetch, environment)
    if settings.on_finished is not None:
        yield from own_tasks.wrong_template("on_finished", settings.on_finished, environment)
    if settings.on_failure is not None:
        yield from own_tasks.wrong_on_failure("on_failure", settings.on_failure, environment)
    for name, entry in settings.cron.items():
        if known.get(name) != entry:
            yield from own_tasks.wrong_entry(reader.path("cron", name), name, entry, environment)
    for pattern, choice in settings.slot.patterns.items():
        yield from wrong_choice(reader.path("slot.patterns", pattern), choice)
