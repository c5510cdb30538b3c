"""The settings of a project and of the core, and how layers of them make one.

A project's settings come in layers, the later wins: the defaults below, ``[defaults]`` of the config, the project's
own section of the config, and what ``project-set`` said. Each layer is a plain map, checked as it is merged; tables
(``cron``, ``fetch``, ``on_finished``) are merged key by key. A cron job is one value: a layer that names it says all of
it, or None for no such job.

What is good in each layer is good in the whole, so that a new config can't spoil what ``project-set`` said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import inf
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct, field

from taskqueue.core.given import Given
from taskqueue.core.messages import (
    MAX_TASKID_BYTES,
    MAX_URL_CHARS,
    AgeSeconds,
    GroupName,
    Priority,
    Retries,
    Setting,
    TimeoutSeconds,
)
from taskqueue.errors import Rejected

Layer = Mapping[str, Setting]
"""Settings by name; only those that it wants to say."""


JOB_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
MAX_JOBS: Final = 100
"""Cron jobs of one layer of one project."""

DURATION: Final = re.compile(r"(\d{1,9})([smhd])", re.ASCII)
UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
MAX_EVERY_SECONDS: Final = 366 * 86_400

TICK: Final = "{tick}"
"""In a url or a taskid of a cron job: the unix seconds of the run."""
MAX_TICK: Final = "9" * 11

SHOWN_CHARS: Final = 100
PATH: Final = re.compile(r" - at (?:key in )?\$")
"""In front of where in a value something is wrong, in messages of msgspec."""

MAX_PACKED_BYTES: Final = 64 << 10
"""Longest body of a task in the settings, and longest ``fetch``: they are sent with each view of the project, and with
what is handed out."""

NAME_WORDS: Final = 'up to 64 letters, digits, "_", "-" and "."'
Name = Annotated[GroupName, Meta(extra={"words": NAME_WORDS})]


class Template(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A task that the scheduler pushes by itself, with ``force_update``.

    Attributes:
        url, taskid: empty: made from the name of what pushes it. ``{tick}`` in those of a cron job stands for the
            unix seconds of the run.
        body: sent along as it is, such as ``{process = {callback = "index"}}``.
    """

    url: Annotated[str, Meta(max_length=MAX_URL_CHARS)] = ""
    taskid: Annotated[str, Meta(max_length=MAX_TASKID_BYTES)] = ""
    priority: Priority = 0
    retries: Retries | None = None
    age: AgeSeconds | None = None
    timeout: TimeoutSeconds | None = None
    body: Any = None


class CronJob(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """When to push which task, again and again. One of ``cron`` and ``every``.

    Attributes:
        cron: a cron expression, read in ``zone``.
        every: such as "90s", "5m", "12h" or "1d": at the multiples of that since 1970 (UTC); at most 366 days.
        missed: what to do about runs missed while the daemon was down: skip them, or run once.
    """

    task: Template = Template()
    cron: str = ""
    every: str = ""
    zone: str = "UTC"
    missed: Literal["skip", "once"] = "skip"


class Pace(Struct, frozen=True, forbid_unknown_fields=True):
    """A bucket that several projects share: ``[buckets.NAME]``."""

    rate: Annotated[float, Meta(ge=0)] = 1.0
    burst: Annotated[float, Meta(ge=1)] = 3.0


class Settings(Struct, frozen=True, forbid_unknown_fields=True):
    """How the tasks of one project are run.

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
        weight: its share, in proportion to the weights of other projects that have work.
        fail_pause_num: failures in a row after which it pauses itself; 0 switches that off.
        pause_time: seconds until it then hands out a few tasks to see whether they fail, too.
        error_burst: failed attempts within five minutes at which people are told; inf is never.
        group: a name for several projects, by which commands take them together.
        bucket: name of a bucket in the config that it shares. Its own ``rate`` is then unlimited, unless its own
            section or ``project-set`` says one.
        active: hours in which it hands out tasks, such as "22:00-06:00 Europe/Berlin"; empty: always.
        fetch: sent beside its tasks and laid under the ``fetch`` of each by the client.
        on_finished: the task to push when it has finished; None: none.
        cron: its jobs, by name.
    """

    rate: Annotated[float, Meta(ge=0)] = 1.0
    burst: Annotated[float, Meta(ge=1)] = 3.0
    processing_timeout: TimeoutSeconds = 600.0
    retries: Retries = 3
    retry_delay: Annotated[
        tuple[Annotated[float, Meta(ge=0, le=1e9)], ...], Meta(min_length=1, max_length=100)
    ] = (30.0, 3600.0, 21600.0, 43200.0, 86400.0)  # fmt: skip
    max_queue: Annotated[float, Meta(ge=1)] = inf
    max_tasks: Annotated[float, Meta(ge=1)] = inf
    max_depth: Annotated[float, Meta(ge=0)] = inf
    max_processing: Annotated[float, Meta(ge=1)] = inf
    weight: Annotated[float, Meta(ge=0.1, le=1000)] = 1.0
    fail_pause_num: Annotated[int, Meta(ge=0, le=1_000_000)] = 10
    pause_time: Annotated[float, Meta(gt=0, le=1e9)] = 300.0
    error_burst: Annotated[float, Meta(ge=1)] = 100.0
    group: Name = ""
    bucket: Name = ""
    active: str = ""
    fetch: dict[str, Any] = {}
    on_finished: Template | None = None
    cron: dict[str, CronJob] = {}


PLAIN_TEMPLATE: Final = Template()
PLAIN_JOB: Final = CronJob()


class CoreConfig(Struct, frozen=True):
    """Everything that the core is told from outside.

    Attributes:
        defaults, projects: layers of settings: for all projects, and by name; a project named here is made.
        buckets: shared by several projects, by name.
        auto_create: a new-task for an unknown project makes it.
        fetcher_timeout: seconds of silence after which a fetcher gives back what it holds.
        session_timeout: seconds of silence after which a session's kept outcomes are forgotten.
        max_sessions: kept at once; above it the one silent for longest is forgotten.
        head_tasks, head_bytes: what each order of a project holds in memory, at most.
        turn_tasks: most tasks promoted, expired or handed out in one turn.
        select_bytes: about the size at which a select message is full.
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
    head_tasks: int = 4096
    head_bytes: int = 4 << 20
    turn_tasks: int = 2048
    select_bytes: int = 1 << 20
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
        _check_jobs(layer.get("cron"))
    unknown = [key for key in merged if key not in Settings.__struct_fields__]
    if unknown:
        known = ", ".join(Settings.__struct_fields__)
        raise Rejected("setting", f"{unknown[0]}: unknown setting; there are {known}")
    if merged.get("bucket") and not any("rate" in layer for layer in layers[1:]):
        merged["rate"] = inf
    merged["cron"] = _without_none(merged.get("cron", {}))
    try:
        settings = msgspec.convert(merged, Settings)
    except msgspec.ValidationError as error:
        raise _rejected(merged, error) from None
    _check_whole(settings)
    return settings


def overlay(merged: dict[str, Setting], layer: Layer) -> None:
    """Lay a layer over those before; tables key by key."""
    for key, value in layer.items():
        under = merged.get(key)
        merged[key] = {**under, **value} if isinstance(under, dict) and isinstance(value, dict) else value


def check(settings: Settings, given: Given) -> None:
    """See that what only the outside can read can be read.

    Raises:
        Rejected: with the code ``setting`` and a reason that names the key.
    """
    given.hours(settings.active, 0.0)
    _check_packs(given, "fetch", settings.fetch)
    if settings.on_finished is not None:
        _check_packs(given, "on_finished.body", settings.on_finished.body)
    for name, job in settings.cron.items():
        _check_packs(given, f"cron.{name}.task.body", job.task.body)
        _check_read(given, name, job)


def seconds_of(duration: str) -> int:
    """``"5m"`` as 300; 0: it can't be read."""
    read = DURATION.fullmatch(duration)
    return int(read[1]) * UNIT_SECONDS[read[2]] if read else 0


def as_layer(settings: Settings) -> dict[str, Setting]:
    """All settings as a map, for people: ``merge({}, as_layer(settings))`` is the same again.

    Bodies are in it as they are, so that whatever MessagePack can say stays what it is.
    """
    finished = settings.on_finished
    return msgspec.structs.asdict(settings) | {
        "retry_delay": list(settings.retry_delay),
        "on_finished": None if finished is None else _said(finished, PLAIN_TEMPLATE),
        "cron": {
            name: _said(job, PLAIN_JOB) | {"task": _said(job.task, PLAIN_TEMPLATE)}
            for name, job in settings.cron.items()
        },
    }


def _said(value: Struct, plain: Struct) -> dict[str, Any]:
    """The fields that say something."""
    return {key: field for key, field in msgspec.structs.asdict(value).items() if field != getattr(plain, key)}


def _without_none(table: Setting) -> Setting:
    return {key: value for key, value in table.items() if value is not None} if isinstance(table, dict) else table


# ---------------------------------------------------------------------------------------- what can't be


def _check_jobs(jobs: Setting) -> None:
    if not isinstance(jobs, dict):
        return
    if len(jobs) > MAX_JOBS:
        raise Rejected("setting", f"cron: expected at most {MAX_JOBS} jobs, not {len(jobs)}")
    for name in jobs:
        if not isinstance(name, str) or not JOB_NAME.fullmatch(name):
            reason = f'a job\'s name is 1 to 64 letters, digits, "_" and "-", not {_shown(name)}'
            raise Rejected("setting", f"cron: {reason}")


def _check_whole(settings: Settings) -> None:
    """What the types can't say."""
    if settings.on_finished is not None:
        _check_template("on_finished", settings.on_finished)
    for name, job in settings.cron.items():
        _check_template(f"cron.{name}.task", job.task)
        _check_times(f"cron.{name}", job)


def _check_template(where: str, task: Template) -> None:
    """The daemon is no better than its producers: what it pushes fits into a message."""
    url, taskid = (text.replace(TICK, MAX_TICK) for text in (task.url, task.taskid))
    if len(url) > MAX_URL_CHARS:
        raise Rejected("setting", f"{where}.url: expected at most {MAX_URL_CHARS} characters")
    if len(taskid.encode()) > MAX_TASKID_BYTES:
        raise Rejected("setting", f"{where}.taskid: expected at most {MAX_TASKID_BYTES} bytes of utf-8")


def _check_times(where: str, job: CronJob) -> None:
    if bool(job.cron) == bool(job.every):
        raise Rejected("setting", f"{where}: give one of cron and every")
    if job.every and not 0 < seconds_of(job.every) <= MAX_EVERY_SECONDS:
        reason = f'expected "90s", "5m", "12h", "1d" or the like, at most "366d", not {_shown(job.every)}'
        raise Rejected("setting", f"{where}.every: {reason}")
    if job.every and job.zone != PLAIN_JOB.zone:
        raise Rejected("setting", f"{where}.zone: goes with cron; every counts from 1970 in UTC")


def _check_packs(given: Given, where: str, value: object) -> None:
    try:
        packed = given.pack(value)
    except Rejected as rejected:
        raise Rejected("setting", f"{where}: {rejected.reason.partition(': ')[2]}") from None
    if len(packed) > MAX_PACKED_BYTES:
        raise Rejected("setting", f"{where}: {len(packed)} bytes, at most {MAX_PACKED_BYTES} are taken in a setting")


def _check_read(given: Given, name: str, job: CronJob) -> None:
    if job.cron:
        try:
            given.next_run(job.cron, job.zone, 0.0)
        except Rejected as rejected:
            raise Rejected("setting", f"cron.{name}.{rejected.reason}") from None


def _rejected(merged: Layer, error: Exception) -> Rejected:
    """The reason for the first of the settings that can't be."""
    for where, value, kind in _parts(merged):
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError as why:
            return Rejected("setting", _plain(where, str(why), value))
    return Rejected("setting", str(error))


def _parts(merged: Layer) -> Iterator[tuple[str, Setting, Any]]:
    """Each setting, and each cron job, with its name and its type."""
    types = {field.name: field.type for field in msgspec.structs.fields(Settings)}
    for key, value in merged.items():
        if key == "cron" and isinstance(value, dict):
            yield from ((f"cron.{name}", job, CronJob) for name, job in value.items())
        else:
            yield key, value, types[key]


def _plain(where: str, message: str, value: Setting) -> str:
    """``Expected `float` >= 0.0`` as ``rate: expected float >= 0.0, not -1``.

    In a table a path follows, ``- at `$.task.priority```; what is wrong there is not shown again.
    """
    words, *paths = PATH.split(message.replace("`", ""))
    if " matching regex " in words:
        words = f"expected {NAME_WORDS}"
    words = words[:1].lower() + words[1:]
    return f"{where}{''.join(paths)}: {words}" if isinstance(value, dict) else f"{where}: {words}, not {_shown(value)}"


def _shown(value: Setting) -> str:
    """On one line that people can read."""
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]} …"
