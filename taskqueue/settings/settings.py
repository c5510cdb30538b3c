"""The settings of a project and of the core, and how layers of them make one.

A project's settings come in layers, the later wins: the defaults below, ``[defaults]`` of the config, the project's
own section of the config, and what ``project-set`` said. Each layer is a plain map, checked as it is merged; tables
(``slot``, ``slot.patterns``, ``keep``, ``fetch``, ``on_finished``, ``cron``) are merged key by key. A cron job is one
value, and so is a pattern of slots: a layer that names it says all of it, or None for none. ``slot.delay`` and
``slot.rate`` say the same thing: a layer says one of them, which takes the place of whichever was said before.

What is good in each layer is good in the whole, so that a new config can't spoil what ``project-set`` said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct, field

from taskqueue.protocol.choices import NAME_WORDS
from taskqueue.protocol.fields import GroupName, Retries, Setting, TimeoutSeconds
from taskqueue.settings import jobs, reader
from taskqueue.settings.description import DURATION, Description, described
from taskqueue.settings.environment import Environment
from taskqueue.settings.jobs import NO_JOBS, PLAIN_JOB, PLAIN_TEMPLATE, CronJob, Template
from taskqueue.settings.slot_choice import (
    PLAIN_CHOICE,
    FromOne,
    SlotSettings,
    says_rate,
    wrong_choice,
    wrong_patterns,
)

Layer = Mapping[str, Setting]
"""Settings by name; only those that it wants to say."""

CRASHES_MOST: Final = 15
"""Crashes of a task that are counted."""

WHOLES: Final = ("max_queue", "max_tasks", "max_depth", "max_processing")
"""Settings that count tasks."""

FromZero = Annotated[float, Meta(ge=0, extra={"words": "a whole number of at least 0 or inf"})]
Duration = Annotated[float, Meta(ge=0, extra=DURATION)]
Name = Annotated[GroupName, Meta(extra={"words": f"up to 64 {NAME_WORDS}"})]


class Pace(Struct, frozen=True, forbid_unknown_fields=True):
    """A bucket that several projects share: ``[buckets.NAME]``."""

    rate: Annotated[float, Meta(ge=0)] = 1.0
    burst: Annotated[float, Meta(ge=1)] = 3.0


class KeepSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The setting ``keep`` of a project.

    Attributes:
        success, failed, cancelled: seconds for which the url, the body and the history of a task that ended so are
            kept; inf: for ever.
        then: after that the task itself is remembered, so that its url does not come again, or forgotten.
    """

    success: Duration = inf
    failed: Duration = inf
    cancelled: Duration = inf
    then: Literal["remember", "forget"] = "remember"


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """How the tasks of one project are run. What is seconds here may be said as a text such as "30d", too.

    Attributes:
        rate: tasks handed out a second, on average; inf is unlimited, 0 hands out nothing.
        burst: tasks that may be handed out at once after a quiet time; at least 1.
        processing_timeout: seconds that a fetcher has for a task that says nothing else.
        retries: further attempts after the first failure, for a task that says nothing else.
        retry_delay: seconds before each further attempt; the last one stands for all that follow.
        max_queue: live tasks at which new ones are rejected; inf is unlimited.
        max_tasks: tasks, live or over, at which new ones are rejected, follow-ups too; inf is unlimited.
        max_depth: follow-ups deeper than that are ignored; a task that was pushed by itself has depth 0.
        max_processing: leases at once, at most; inf is unlimited.
        max_crashes: if so many fetchers in a row fall silent while they run a task, that is the task's failure.
        weight: its share, in proportion to the weights of other projects that have work.
        fail_pause_num: failures in a row after which it pauses itself; 0 switches that off.
        pause_time: seconds until it then hands out a few tasks to see whether they fail, too.
        error_burst: failed attempts within five minutes at which people are told; inf is never.
        growing: new tasks of a slot that are judged together; if they look like those of a trap, such as a calendar,
            people are told. inf is never.
        group: a name for several projects, by which commands take them together.
        bucket: name of a bucket in the config that it shares. Its own ``rate`` is then unlimited, unless its own
            section or ``project-set`` says one.
        slot: how its tasks are divided into slots, and how fast each of these goes.
        active: hours in which it hands out tasks, such as "22:00-06:00 Europe/Berlin"; empty: always.
        keep: how long tasks are kept that are over.
        fetch: sent beside its tasks and laid under the ``fetch`` of each by the client.
        on_finished: the task to push when it has finished; None: none.
        cron: its jobs, by name.

    Raises:
        ValueError: what counts tasks is no whole number.
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
    cron: dict[str, CronJob] = {}

    def __post_init__(self) -> None:
        for name in WHOLES:
            number = getattr(self, name)
            if number != inf and number % 1:
                raise ValueError(name)


class CoreConfig(Struct, frozen=True):
    """Everything that the core is told from outside.

    Attributes:
        defaults, projects: layers of settings: for all projects, and by name; a project named here is made.
        buckets: shared by several projects, by name.
        auto_create: a new-task for an unknown project makes it.
        fetcher_timeout: seconds of silence after which a fetcher's tasks are taken back.
        session_timeout: seconds of silence after which a session is forgotten, with its kept outcomes.
        max_sessions: kept at once; above it the one silent for longest is forgotten.
        head_tasks, head_bytes: what each order of a project holds in memory, at most.
        queue_bytes: what the orders of all projects hold in memory together; see ``memory``.
        slots_in_memory: slots that are held in memory, of all projects together; the others are in the store.
        max_projects: at which no further one is made; those that the config names are.
        max_leases: tasks that fetchers have at once, at most, of all projects together; those of one connection have
            half of them at most.
        turn_tasks: most tasks promoted, expired or handed out in one turn.
        select_bytes: about the size at which a select message is full, if that is at most a quarter of ``max_message``.
        has_room: the disk has room; if not, nothing that lets the store grow is taken and nothing is handed out, but
            ``done`` is taken, with all that came out of it.
        max_message: bytes of the longest message taken, told to clients.
        version: of the software, told to clients.
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
    max_message: int = 8 << 20
    version: str = ""


def merge(*layers: Layer) -> Settings:
    """Lay the layers over each other and check the whole; the first one is that for all projects.

    Raises:
        Rejected: with the code ``setting`` and a reason that names the key.
    """
    merged: dict[str, Setting] = {}
    for layer in layers:
        overlay(merged, layer)
        _refuse(jobs.wrong_names(layer.get("cron")))
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
    """Lay a layer over those before: tables key by key, the delay or the rate of slots in place of either.

    Args:
        kind: type of the table that both are.
    """
    if kind is SlotSettings:
        _make_way(merged, layer)
    known = described(kind)
    for key, value in layer.items():
        merged[key] = _laid_over(merged.get(key), value, known.get(key))


def _make_way(slot: dict[str, Setting], over: Layer) -> None:
    """Drop the delay or the rate that another layer of the setting ``slot`` replaces."""
    if "delay" in over and "rate" not in over:
        slot.pop("rate", None)
    elif says_rate(over):
        slot.pop("delay", None)


def _laid_over(under: Setting, value: Setting, setting: Description | None) -> Setting:
    is_table = setting is not None and setting.form == "table"
    if not (is_table and isinstance(under, dict) and isinstance(value, dict)):
        return value
    if setting is None or setting.section is None:
        return {**under, **value}
    joined = dict(under)
    overlay(joined, value, setting.section)
    return joined


def check(settings: Settings, environment: Environment, known: Mapping[str, CronJob] = NO_JOBS) -> None:
    """See that what only the outside can read can be read; jobs that are ``known`` have been checked already.

    Raises:
        Rejected: with the code ``setting`` and a reason that names the key.
    """
    _refuse(_wrong_meaning(settings, environment, known))


def problems(where: str, layer: Layer, environment: Environment) -> Iterator[str]:
    """Everything that is wrong with each setting of a layer of the config file, by its path from section ``where``.

    ``merge`` and ``check`` take a layer without problems and ``contradictions``; of any other they say the first.
    """
    for key, value in layer.items():
        found = _setting_problems(key, value, environment)
        yield from (f"{where}.{reason}" for reason in found)


def contradictions(layer: Layer) -> Iterator[str]:
    """What is wrong with settings of a layer that are good one by one."""
    slot = _table(layer, "slot")
    if "delay" in slot and says_rate(slot):
        yield "slot: give one of delay and rate"


def _setting_problems(key: str, value: Setting, environment: Environment) -> Iterator[str]:
    """What is wrong with its form, then with the meaning of whatever of it has a good form."""
    found: list[str] = []
    settings = reader.read("", {key: value}, Settings, found.append)
    yield from found
    if key == "cron":
        yield from jobs.wrong_names(value)
    if key == "slot" and isinstance(value, dict):
        yield from wrong_patterns(value.get("patterns"))
    yield from _wrong_meaning(settings, environment)


def as_layer(settings: Settings) -> dict[str, Setting]:
    """All settings as a map, for people: ``merge({}, as_layer(settings))`` is the same again.

    Bodies are in it as they are, so that whatever MessagePack can say stays what it is. The delay of slots is missing
    where they have a rate.
    """
    finished = settings.on_finished
    return msgspec.structs.asdict(settings) | {
        "retry_delay": list(settings.retry_delay),
        "on_finished": None if finished is None else _said(finished, PLAIN_TEMPLATE),
        "cron": {
            name: _said(job, PLAIN_JOB) | {"task": _said(job.task, PLAIN_TEMPLATE)}
            for name, job in settings.cron.items()
        },
        "slot": _slot_table(settings.slot),
        "keep": msgspec.structs.asdict(settings.keep),
    }


def _slot_table(slot: SlotSettings) -> dict[str, Setting]:
    patterns = {pattern: _said(choice, PLAIN_CHOICE) for pattern, choice in slot.patterns.items()}
    table = msgspec.structs.asdict(slot) | {"patterns": patterns}
    if slot.rate != inf:
        del table["delay"]
    return table


def _said(value: Struct, plain: Struct) -> dict[str, Any]:
    return {key: field for key, field in msgspec.structs.asdict(value).items() if field != getattr(plain, key)}


def _table(layer: Layer, name: str) -> Layer:
    """A setting that is a table; empty if it is not said, or none."""
    table = layer.get(name)
    return table if isinstance(table, dict) else {}


def _without_none(table: Setting) -> Setting:
    return {key: value for key, value in table.items() if value is not None} if isinstance(table, dict) else table


# ---------------------------------------------------------------------------------------- what can't be


def _refuse(reasons: Iterator[str]) -> None:
    for reason in reasons:
        reader.refuse(reason)


def _wrong_meaning(
    settings: Settings, environment: Environment | None = None, known: Mapping[str, CronJob] = NO_JOBS
) -> Iterator[str]:
    """What the types can't say; without an environment not what only the outside can read."""
    if environment is not None:
        yield from jobs.attempt("active", lambda: environment.hours(settings.active, 0.0))
        yield from jobs.unpackable("fetch", settings.fetch, environment)
    if settings.on_finished is not None:
        yield from jobs.wrong_template("on_finished", settings.on_finished, environment)
    for name, job in settings.cron.items():
        if known.get(name) != job:
            yield from jobs.wrong_job(reader.path("cron", name), job, environment)
    for pattern, choice in settings.slot.patterns.items():
        yield from wrong_choice(reader.path("slot.patterns", pattern), choice)
